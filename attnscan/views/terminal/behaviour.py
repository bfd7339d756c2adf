"""The first screen of `heads` and `classify`: kinds of behaviour, their strongest heads, and the map of all heads."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.behaviour import Behaviours, Kind
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.ranking import Ranking
from attnscan.views.behaviour import legend, remarks, summary, words
from attnscan.views.palette import letter
from attnscan.views.terminal.parts import color_of, columns, fitted, flowed, number, wrapped

_ROWS = 12  # kinds that have a line of their own, at most; the others share lines
_MOST = 33  # lines of a screen, beside one for each layer: 39 for 6 layers, 45 for 12
_BELOW = 4  # of them, below a screen: a blank line and three of what to try next
_LEAST_BESIDE = 64  # columns that kinds need if the map is to stand beside them
_FEW_STRONGEST = 20  # columns: below, the average head's share goes, and not the strongest heads
_RULER = 6  # columns of layer numbers on the map


def behaviours_view(
    result: Classification | Ranking, width: int, *, mapped: bool = True, taken: int = 2
) -> Iterator[RenderableType]:
    """What the heads of a model do, in a sentence, by kinds and, if `mapped`, head by head.

    Of the screen's lines, `taken` are other ones: so many kinds share lines that there is room for all.
    """
    behaviours = result.behaviours
    said, noted = list(wrapped(summary(result), width, style="")), list(wrapped(" ".join(remarks(result)), width))
    lines = list(_map(behaviours, width)) if mapped else []
    explained = list(wrapped(legend(behaviours), width)) if mapped else []
    left = _MOST + behaviours.grid.shape[0] - _BELOW - taken - 2 - len((*said, *noted, *explained))
    room = width - max((line.cell_len for line in lines), default=width) - 2
    yield Group("", *said, "")
    if room >= _LEAST_BESIDE:
        both = Table.grid(padding=(0, 2, 0, 0))
        both.add_row(Group(*_kinds(behaviours, room, left)), Text("\n").join(lines))
        yield both
        yield from noted
    else:
        yield from _kinds(behaviours, width, left - len(lines) - bool(lines))
        yield from noted
        yield Group(*[""] * bool(lines), *lines)
    yield from explained


def _kinds(behaviours: Behaviours, width: int, lines: int) -> Iterator[RenderableType]:
    """A line a kind that some head shows, patterns first; the rarest share as few lines as there is room for."""
    kinds = [kind for kind in behaviours.kinds if kind.heads]
    short = [
        Text(" ").join([_named(kind), *(_strength(behaviours, head) for head in kind.heads[:1])]) for kind in kinds
    ]
    for count in range(min(_ROWS, len(kinds)), -1, -1):
        shared = list(flowed(short[count:], width)) if short[count:] else []
        if bool(count) + count + len(shared) <= lines:
            break
    else:
        shared = list(flowed(map(_named, kinds), width))
    rows = kinds[:count]
    room = width - max((_named(kind).cell_len for kind in rows), default=0) - len("  heads  average  ")
    if room < _FEW_STRONGEST:
        room += len("  average")
    grid = columns(("kind",), ("heads", "average"), ("strongest heads",), header="bold")
    for kind in rows:
        strongest = next(flowed((_strength(behaviours, head) for head in kind.heads), room))
        grid.add_row(_named(kind), str(len(kind.heads)), number(kind.average), strongest)
    if rows:
        yield fitted(grid, width, "average", "strongest heads")
    yield from shared


def _named(kind: Kind) -> Text:
    return Text(f"{letter(kind.name)} {words(kind)}", style=color_of(kind.name))


def _strength(behaviours: Behaviours, head: Head) -> Text:
    """A head with its score or share; `?` if what it does is not sure."""
    asked = "?" if behaviours.unsure[head.place] else ""
    return Text(f"{head.name}{asked} {number(behaviours.strength[head.place])}")


def _map(behaviours: Behaviours, width: int) -> Iterator[Text]:
    """Every head's letter, and `?` where it is unsure; that alone where there is room for no more."""
    layers, heads = behaviours.grid.shape
    cell = next((size for size in (3, 2) if _RULER + size * heads <= width), 1)
    every = 1 if cell == 3 else 5
    ruler = "".join((f"{head:>2}" if head % every == 0 else "").ljust(cell) for head in range(heads))
    yield Text(" " * (_RULER - 1) + (ruler if cell > 1 else f" 0 to {heads - 1}"), style="dim")
    for layer in range(layers):
        line = Text.assemble((f"{layer:>{_RULER - 2}}  ", "dim"))
        for head in range(heads):
            kind, asked = str(behaviours.kind[layer, head]), "?" if behaviours.unsure[layer, head] else ""
            text = (asked or letter(kind)) if cell == 1 else letter(kind) + asked
            line.append(text.ljust(cell), style=f"bold {color_of(kind)}" if behaviours.own[layer, head] else "dim")
        line.rstrip()
        yield line
