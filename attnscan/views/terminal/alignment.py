"""The part of the screen of `heads` that says which heads of cross attention align words."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import RenderableType

from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.results.scores import Proportion
from attnscan.views.terminal.parts import Column, table_of, wrapped

_MOST = 5  # heads that are listed
_GOLD = (
    "Alignment with the gold links: a head links each target word with the source word that it "
    "attends to most. AER: alignment error rate, lower is better."
)
_NO_GOLD = (
    "No gold links: heads by low entropy and high coverage of the source. That is no proof that "
    "a head aligns words; --alignments FILE measures it."
)


def alignment_view(result: HeadScores, width: int) -> Iterator[RenderableType]:
    """The heads that align words best, of many pairs; nothing of other attention than cross."""
    measured = result.scores.alignment
    if result.is_one_input or not measured:
        return
    heads = [result.grid[number] for number in result.alignment_order()[:_MOST]]
    has_gold = "aer" in measured
    yield ""
    yield from wrapped(_GOLD if has_gold else _NO_GOLD, width, style="")
    if heads:
        yield _with_gold(result, heads, width) if has_gold else _without(result, heads, width)


def _with_gold(result: HeadScores, heads: Sequence[Head], width: int) -> RenderableType:
    """Heads by their alignment error rates."""
    columns = [
        Column("head"),
        Column("AER", ">.3f"),
        Column("95 % interval", ">"),
        Column("precision", ">.3f", 1),
        Column("recall", ">.3f", 2),
        Column("coverage", ">.3f", 3),
    ]
    measured = result.scores.alignment
    names = ("precision", "recall", "coverage")
    rows: list[list[Any]] = []
    for head in heads:
        row = [head.name, measured["aer"].value[head.place], _interval(measured["aer"], head)]
        row += [measured[name].value[head.place] for name in names]
        rows.append(row)
    return table_of(columns, rows, width, apart=1)


def _interval(measured: Proportion, head: Head) -> str:
    """A 95 % interval; nothing below two pairs."""
    low = measured.interval[0][head.place]
    high = measured.interval[1][head.place]
    return "" if np.isnan(low) else f"{low:.3f}–{high:.3f}"


def _without(result: HeadScores, heads: Sequence[Head], width: int) -> RenderableType:
    """Heads by their entropy and coverage."""
    entropy = result.scores.means["entropy"]
    coverage = result.scores.alignment["coverage"].value
    columns = [Column("head"), Column("entropy, nats", ">.2f"), Column("coverage", ">.2f")]
    rows = [[head.name, entropy[head.place], coverage[head.place]] for head in heads]
    return table_of(columns, rows, width, apart=1)
