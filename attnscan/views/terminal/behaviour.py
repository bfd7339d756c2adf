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

_ROWS = 12  # kinds that have a line of their own; the others share lines
_LEAST_BESIDE = 64  # columns that kinds need if the map is to stand beside them
_FEW_STRONGEST = 20  # columns: below, the average head's share goes, and not the strongest heads
_RULER = 6  # columns of layer numbers on the map


def behaviours_view(result: Classification | Ranking, width: int, *, mapped: bool = True) -> Iterator[RenderableType]:
    """What the heads of a model do, in a sentence, by kinds and, if `mapped`, head by head."""
    yield ""
    yield from wrapped(summary(result), width, style="")
    yield ""
    behaviours = result.behaviours
    lines = list(_map(behaviours, width)) if mapped else []
    room = width - max((line.cell_len for line in lines), default=width) - 2
    if room >= _LEAST_BESIDE:
        both = Table.grid(padding=(0, 2, 0, 0))
        both.add_row(Group(*_kinds(behaviours, room)), Text("\n").join(lines))
        yield both
        lines = []
    else:
        yield from _kinds(behaviours, width)
    yield from wrapped(" ".join(remarks(result)), width)
    if lines:
        yield ""
        yield from lines
    if mapped:
        yield from wrapped(legend(behaviours), width)


def _kinds(behaviours: Behaviours, width: int) -> Iterator[RenderableType]:
    """A line a kind of behaviour that some head shows, patterns first; the rarest kinds share lines."""
    kinds = [kind for kind in behaviours.kinds if kind.heads]
    rows, others = kinds[:_ROWS], kinds[_ROWS:]
    room = width - max((_named(kind).cell_len for kind in rows), default=0) - len("  heads  average  ")
    if room < _FEW_STRONGEST:
        room += len("  average")
    grid = columns(("kind",), ("heads", "average"), ("strongest heads",), header="bold")
    for kind in rows:
        strongest = next(flowed((_strength(behaviours, head) for head in kind.heads), room))
        grid.add_row(_named(kind), str(len(kind.heads)), number(kind.average), strongest)
    if rows:
        yield fitted(grid, width, "average", "strongest heads")
    shared = (
        Text(" ").join([_named(kind), *(_strength(behaviours, head) for head in kind.heads[:1])]) for kind in others
    )
    yield from flowed(shared, width) if others else ()


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
