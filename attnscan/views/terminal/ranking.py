"""The screens of `heads`: what every head does, and the best heads of each pattern with what their scores are worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.ranking import Leads, Ranking
from attnscan.results.terms import THRESHOLD
from attnscan.views.summary import none_does, ranked_by, told_apart, why_unscored, worth
from attnscan.views.terminal.behaviour import behaviours_view
from attnscan.views.terminal.parts import (
    color_of,
    columns,
    fitted,
    model_line,
    named,
    some_of,
    with_bars,
    wrapped,
)

_DROPPED = "pairs", "chance", "self", "n", "lead"  # where the screen is narrow


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
        "lead: how far above the next head; ≈ where these pairs cannot tell the two apart (95 %). Bars and above: 0 at "
        "chance, 1 at perfect; no bar where the interval holds chance.",
        width,
    )
