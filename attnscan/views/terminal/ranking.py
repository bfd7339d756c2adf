"""The screens of `heads`: kinds of behaviour with a map of all heads, and the best heads of each pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.behaviour import Behaviours, Kind
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.ranking import Leads, Ranking
from attnscan.results.terms import THRESHOLD
from attnscan.views.behaviour import legend, remarks, summary, words
from attnscan.views.palette import letter
from attnscan.views.summary import none_does, ranked_by, told_apart, why_unscored, worth
from attnscan.views.terminal.parts import (
    color_of,
    columns,
    fitted,
    flowed,
    model_line,
    named,
    number,
    some_of,
    with_bars,
    wrapped,
)

_ROWS = 12  # kinds that have a line of their own, at most; the others share lines
_MOST = 33  # lines of a screen, beside one for each layer: 39 for 6 layers, 45 for 12
_BELOW = 4  # of them, below a screen: a blank line and three of what to try next
_LEAST_BESIDE = 64  # columns that kinds need if the map is to stand beside them
_FEW_STRONGEST = 20  # columns: below, the average head's share goes, and not the strongest heads
_RULER = 6  # columns of layer numbers on the map
_DROPPED = "pairs", "chance", "self", "n", "lead"  # where the screen is narrow


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


def ranking_view(result: Ranking, width: int) -> RenderableType:
    """What every head does over many pairs. Raises: OptionError if the ranking has no labels."""
    title = list(_title(result, width))
    return Group(*title, *behaviours_view(result, width, taken=1 + len(title)))


def best_heads_view(result: Ranking, patterns: Sequence[str], top: int, width: int) -> RenderableType:
    """The best heads of each pattern, with what a score is worth, and which of them cannot be told apart."""
    table = result.table
    blocks: list[RenderableType] = list(_title(result, width))
    threshold = THRESHOLD if result.labels is None else result.labels.threshold
    ranked = 0
    for pattern in patterns:
        blocks += ["", named(pattern)]
        why = why_unscored(result, pattern)
        blocks += [Text(why, style="dim")] if why else []
        if not len(order := result.order(pattern)):
            continue
        ranked = max(ranked, len(order))
        blocks += wrapped(none_does(table, result.scores.patterns.index(pattern), threshold), width)
        blocks += [_table(result, pattern, top, width)]
        blocks += wrapped(told_apart(result, pattern), width)
    blocks += ["", *_notes(width)] if ranked else []
    blocks += [Text(some_of(top, ranked), style="dim")] if ranked > top else []
    return Group(*blocks)


def _title(result: Ranking, width: int) -> Iterator[RenderableType]:
    yield model_line(result.signature, f"  {result.signature.counts}")
    yield from wrapped(ranked_by(result), width)


def _table(result: Ranking, pattern: str, top: int, width: int) -> RenderableType:
    table, p = result.table, result.scores.patterns.index(pattern)
    of_others = result.scores.scored[p].of_others
    numbers = ("score", "95 % interval", "lead", *(["self"] if of_others else []), "chance", "above", "n", "pairs")
    grid = columns(("head",), numbers, apart=1)
    bars = []
    leads = result.leads(pattern)
    for rank, head_number in enumerate(result.order(pattern)[:top]):
        head = result.scores.grid[head_number]
        place = (*head.place, p)
        row = worth(table, place)
        sure = table.interval[0][place] > table.chance[place]  # false for NaN
        bars.append((float(table.above_chance[place]) if sure else 0.0, Text("█", style=color_of(pattern))))
        grid.add_row(
            head.name,
            row["score"],
            row["interval"],
            _lead(leads, rank) if rank < len(leads.sure) else "",
            *([row["itself"]] if of_others else []),
            *(row[name] for name in ("chance", "above_chance", "n", "pairs")),
        )
    return with_bars(fitted(grid, width, *_DROPPED), "above chance", bars, width)


def _lead(leads: Leads, rank: int) -> str:
    """By how much a head is above the next one; marked where they cannot be told apart, empty where nobody knows."""
    return "" if np.isnan(leads.se[rank]) else f"{'' if leads.sure[rank] else '≈ '}{leads.difference[rank]:.3f}"


def _notes(width: int) -> Iterator[Text]:
    yield from wrapped(
        "lead: how far above the next head; ≈: no further than its 95 % interval. above, bars: 0 at chance, 1 at "
        "perfect; no bar: the score's interval reaches chance.",
        width,
    )
