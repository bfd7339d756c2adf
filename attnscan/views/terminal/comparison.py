"""The screens of `compare`, what sets two models apart, and of `similar`, which heads attend alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison
from attnscan.results.grid import Head
from attnscan.results.similarity import Similarity
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.palette import letter
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import color_of, flowed, model_line, named, wrapped

_ROOM_FOR_ERRORS = 90  # columns
_CLOSEST = 10


def comparison_view(
    comparison: Comparison,
    patterns: Sequence[str],
    width: int,
    heads: Sequence[Head] | None = None,
    top: int | None = None,
) -> RenderableType:
    """A row for each pattern, and the heads that follow another one than before.

    With `heads` or `top`, the differences of those heads, or the greatest of each pattern, in lines of their own.
    """
    blocks: list[RenderableType] = [
        Text(f"{name} ", style="dim").append_text(model_line(signature))
        for name, signature in zip("AB", comparison.signatures, strict=True)
    ]
    how = "heads of one place" if comparison.match == "place" else "each head of A and the most similar one of B"
    blocks += [Text(f"{counted(comparison.pairs, 'pair')}, {counted(len(comparison.a.grid), 'head')}: {how}"), ""]
    survivors, differences = int(comparison.survives.sum()), int((~np.isnan(comparison.p)).sum())
    below = int(comparison.beyond_chance.sum()) - survivors
    survive = f"{survivors:,} of {counted(differences, 'difference')} survive"
    smaller = f"; {below:,} beyond chance are smaller than {comparison.least:g}"
    table = _table(comparison, patterns, with_errors=width >= _ROOM_FOR_ERRORS)
    blocks += [Text.assemble((survive, "bold"), smaller), "", table.screen(width), ""]
    if heads is None and top is None:
        blocks += _changed(comparison, width)
    else:
        blocks += _differences(comparison, patterns, heads, top)
    if comparison.match == "nearest":
        grid, name = comparison.a.grid, plain(comparison.signatures[1].model)
        same = sum(head.place == tuple(comparison.matched[head.place]) for head in grid)
        apart = f"{np.median(comparison.divergence):.3f} nats."
        blocks += ["", Text(f"{same} of {len(grid)} heads are most like the head of their own place in {name}.")]
        blocks += [Text(f"Median divergence from the most similar head: {apart}")]
    note = (
        "rank: Spearman's correlation of the two models' scores over heads. survive: the differences, B minus A, of "
        f"{comparison.least:g} or more that are beyond chance among those of all heads and patterns, by t-tests that "
        f"are paired and clustered by pair, at a false discovery rate of {100 * FALSE_DISCOVERIES:g} %. "
        "rises, falls: the greatest of these, in a wide window ± its standard error. ?: the label "
        "of the head, in one of the models, changed in more than 5 % of bootstrap resamples."
    )
    blocks += ["", *wrapped(note, width)]
    if {"identical", "cross-sentence"} & set(patterns) and comparison.alike:
        blocks += wrapped(f"identical, cross-sentence: {comparison.alike}", width)
    return Group(*blocks)


def _table(comparison: Comparison, patterns: Sequence[str], *, with_errors: bool) -> Table:
    rows = []
    for pattern in patterns:
        p = comparison.patterns.index(pattern)
        counts = [(label == pattern).sum() for label in comparison.labels]
        extremes = []
        for head in comparison.extremes(pattern):
            error = f" ± {comparison.se[(*head.place, p)]:.3f}" if head and with_errors else ""
            extremes.append(f"{head.name} {comparison.difference[(*head.place, p)]:+.3f}{error}" if head else "–")
        survivors = comparison.survives[..., p].sum()
        rows.append([named(pattern), *counts, comparison.correlation(pattern), survivors, *extremes])
    columns = [Column("pattern"), Column("heads A", ">", 2), Column("B", ">", 3), Column("rank", ">.2f", 4)]
    return Table([*columns, Column("survive", ">"), Column("rises most"), Column("falls most", drop=1)], rows)


def _differences(
    comparison: Comparison, patterns: Sequence[str], heads: Sequence[Head] | None, top: int | None
) -> Iterator[RenderableType]:
    """Some heads' differences, pattern by pattern; those that survive are bold."""
    rows = []
    for pattern in patterns:
        p = comparison.patterns.index(pattern)
        for i, head in enumerate(comparison.chosen(pattern, heads, top)):
            place = (*head.place, p)
            scores = (table.score[place] for table in comparison.tables)
            value = comparison.difference[place]
            difference = Text("" if np.isnan(value) else f"{value:+.3f}", "bold" if comparison.survives[place] else "")
            rows.append(["" if i else named(pattern), head.name, *scores, difference, comparison.se[place]])
    columns = [Column("pattern"), Column("head"), Column("A", ">.3f"), Column("B", ">.3f"), Column("B − A", ">")]
    yield Text("Head by head; bold: the difference survives", style="bold")
    yield Table([*columns, Column("± se", ">.3f")], rows).screen(80)


def _changed(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    changed, unsure = comparison.changed, comparison.unsure
    moved = [head for heads in changed.values() for head in heads]
    of_these = f", {sum(not unsure[head.place] for head in moved)} of them without a ?" if moved else ""
    every = counted(len(comparison.a.grid), "head")
    yield Text(f"{len(moved)} of {every} changed their label{of_these}", style="bold")
    for (before, after), heads in changed.items():
        title = Text(letter(before), color_of(before)).append(" → ", "dim").append(letter(after), color_of(after))
        entries = [Text(head.name + "?" * bool(unsure[head.place])) for head in heads]
        for i, line in enumerate(flowed(entries, width - 9)):
            yield Text("  ").append_text(Text(" " * title.cell_len) if i else title).append("  ").append_text(line)


def similarity_view(similarity: Similarity, width: int, heads: str | None, nearest: int) -> RenderableType:
    """Groups and the closest pairs of heads, or the nearest of the heads that are named."""
    blocks: list[RenderableType] = [model_line(similarity.signature, f"  {similarity.signature.counts}"), ""]
    if heads is None:
        blocks += [*_groups(similarity, width), "", Text("The closest two", style="bold")]
        blocks += [_pairs(similarity, similarity.closest(_CLOSEST))]
    else:
        chosen = [similarity.scores.grid.index(head) for head in similarity.scores.grid.select(heads)]
        pairs = [(head, other) for head in chosen for other in similarity.nearest(head, nearest)]
        blocks += [_pairs(similarity, pairs)]
    note = (
        f"divergence: Jensen-Shannon, in nats, from 0 (the same weights) to 0.693 (no key in common), over "
        f"{counted(similarity.queries, 'query', 'queries')}."
    )
    note += " ?: the label changed in more than 5 % of bootstrap resamples." if similarity.labels.unsure.any() else ""
    return Group(*blocks, "", *wrapped(note, width))


def _groups(similarity: Similarity, width: int) -> list[RenderableType]:
    groups = [group for group in similarity.groups if len(group) > 1]
    alone = sum(len(group) == 1 for group in similarity.groups)
    title = f"{counted(len(groups), 'group')} within {similarity.within:g} nats, {counted(alone, 'head')} alone"
    lines: list[RenderableType] = [Text(title, style="bold")]
    for place, group in enumerate(groups, 1):
        entries = [_named(similarity, head) for head in group]
        for i, line in enumerate(flowed(entries, width - 5)):
            lines.append(Text(f"{place:>3}  " if i == 0 else " " * 5, style="dim").append_text(line))
    return lines


def _named(similarity: Similarity, head: int) -> Text:
    """A head's name, and the letter of its label in its colour."""
    label = str(similarity.label[head])
    mark = letter(label) + "?" * bool(similarity.labels.unsure.ravel()[head])
    return Text(similarity.heads[head].name + " ").append(mark, style=color_of(label))


def _pairs(similarity: Similarity, pairs: list[tuple[int, int]]) -> RenderableType:
    alike, se = similarity.divergence, similarity.se
    rows = [[*(_named(similarity, head) for head in pair), alike[pair], se[pair]] for pair in pairs]
    columns = Column("head"), Column("nearest"), Column("divergence", ">.3f"), Column("± se", ">.3f")
    return Table(columns, rows).screen(80)
