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
from attnscan.views.terminal.parts import (
    color_of,
    flowed,
    model_line,
    named,
    wrapped,
)

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
    blocks: list[RenderableType] = []
    for name, signature in zip("AB", comparison.signatures, strict=True):
        blocks.append(Text(f"{name} ", style="dim").append_text(model_line(signature)))
    how = "heads of one place" if comparison.match == "place" else "each head of A and the most similar one of B"
    blocks += [Text(f"{counted(comparison.pairs, 'pair')}, {counted(len(comparison.a.grid), 'head')}: {how}"), ""]
    survivors, differences = int(comparison.survives.sum()), int((~np.isnan(comparison.p)).sum())
    below, least = int(comparison.beyond_chance.sum()) - survivors, f"{comparison.least:g}"
    told = f"{survivors:,} of {counted(differences, 'difference')} survive"
    blocks.append(Text.assemble((told, "bold"), f"; {below:,} beyond chance are smaller than {least}"))
    changed = heads is None and top is None
    blocks += [
        "",
        _table(comparison, patterns, with_errors=width >= _ROOM_FOR_ERRORS).screen(width),
        "",
        *(_changed(comparison, width) if changed else _differences(comparison, patterns, heads, top)),
    ]
    if comparison.match == "nearest":
        blocks += ["", *_moved(comparison)]
    return Group(*blocks, "", *(line for note in _notes(comparison, patterns) for line in wrapped(note, width)))


def _notes(comparison: Comparison, patterns: Sequence[str]) -> Iterator[str]:
    yield (
        "rank: Spearman's correlation of the two models' scores over heads. survive: the differences, B minus A, of "
        f"{comparison.least:g} or more that are beyond chance among those of all heads and patterns, by t-tests that "
        f"are paired and clustered by pair, at a false discovery rate of {100 * FALSE_DISCOVERIES:g} %. "
        "rises, falls: the greatest of these, in a wide window ± its standard error. ?: the label "
        "of the head, in one of the models, changed in more than 5 % of bootstrap resamples."
    )
    if {"identical", "cross-sentence"} & set(patterns) and comparison.alike:
        yield f"identical, cross-sentence: {comparison.alike}"


def _table(comparison: Comparison, patterns: Sequence[str], *, with_errors: bool) -> Table:
    rows = []
    for pattern in patterns:
        counts = [(label == pattern).sum() for label in comparison.labels]
        survivors = comparison.survives[..., comparison.patterns.index(pattern)].sum()
        up, down = (_extreme(comparison, pattern, head, with_errors) for head in comparison.extremes(pattern))
        rows.append([named(pattern), *counts, comparison.correlation(pattern), survivors, up, down])
    counted_columns = [
        Column("heads A", ">", 2),
        Column("B", ">", 3),
        Column("rank", ">.2f", 4),
        Column("survive", ">"),
    ]
    return Table([Column("pattern"), *counted_columns, Column("rises most"), Column("falls most", drop=1)], rows)


def _extreme(comparison: Comparison, pattern: str, head: Head | None, with_error: bool) -> str:
    if head is None:
        return "–"
    place = (*head.place, comparison.patterns.index(pattern))
    error = f" ± {comparison.se[place]:.3f}" if with_error else ""
    return f"{head.name} {comparison.difference[place]:+.3f}{error}"


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
    count = sum(map(len, comparison.changed.values()))
    total = comparison.labels[0].size
    sure = sum(not comparison.unsure[head.place] for heads in comparison.changed.values() for head in heads)
    of_these = f", {sure} of them without a ?" if count else ""
    yield Text(f"{count} of {counted(total, 'head')} changed their label{of_these}", style="bold")
    for (before, after), heads in comparison.changed.items():
        title = Text(letter(before), color_of(before)).append(" → ", "dim").append(letter(after), color_of(after))
        entries = [Text(head.name + "?" * bool(comparison.unsure[head.place])) for head in heads]
        for i, line in enumerate(flowed(entries, width - 9)):
            yield Text("  ").append_text(title if i == 0 else Text(" " * title.cell_len)).append("  ").append_text(line)


def _moved(comparison: Comparison) -> Iterator[RenderableType]:
    """How many heads are nearest to the one of their own place, and how near."""
    grid = comparison.a.grid
    same = sum(head.place == tuple(comparison.matched[head.place]) for head in grid)
    name = plain(comparison.signatures[1].model)
    yield Text(f"{same} of {len(grid)} heads are most like the head of their own place in {name}.")
    yield Text(f"Median divergence from the most similar head: {np.median(comparison.divergence):.3f} nats.")


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
