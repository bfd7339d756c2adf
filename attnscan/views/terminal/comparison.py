"""The screens of `compare`, what sets two models apart, and `similar`, which heads attend alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.grid import Head, Heads
from attnscan.results.lazy import pd
from attnscan.results.scores import Labels
from attnscan.text import counted, plain
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import RESTS, mark
from attnscan.views.terminal.parts import (
    Column,
    color_of,
    flowed,
    marked,
    model_line,
    named,
    table_of,
    wrapped,
)

_CLOSEST = 10
_MARKS = (
    f"Letters are those of attnscan heads; {RESTS}: rests. ?: the label changed in more than 5 % "
    "of bootstrap resamples."
)


def comparison_view(
    comparison: Comparison,
    patterns: Sequence[str],
    width: int,
    heads: Heads | None = None,
    top: int | None = None,
) -> RenderableType:
    """A row for each pattern, and the heads that follow another one than before.

    With `heads` or `top`, the differences of those heads, or the greatest of each pattern, have
    lines of their own.
    """
    blocks: list[RenderableType] = [*_compared(comparison), ""]
    blocks += [_table(comparison, patterns, width), ""]
    if heads is not None or top is not None:
        title = Text("Head by head; bold: the difference survives", style="bold")
        blocks += [title, _differences(comparison, patterns, heads, top)]
    else:
        blocks += _changed(comparison, width)
    if comparison.match == "nearest":
        blocks += ["", *wrapped(_most_similar(comparison), width, style="")]
    note = (
        "rank: Spearman's correlation of the two models' scores over heads. survive: the "
        f"differences, B minus A, of {comparison.least:g} or more that are beyond chance among "
        "those of all heads and patterns, by t-tests that are paired and clustered by pair, at a "
        f"false discovery rate of {100 * FALSE_DISCOVERIES:g} %. rises, falls: the greatest of "
        f"these. {_MARKS}"
    )
    blocks += ["", *wrapped(note, width)]
    if {"identical", "cross-sentence"} & set(patterns):
        blocks += wrapped(f"identical, cross-sentence: {comparison.alike}", width)
    blocks += wrapped("More than two models, as the checkpoints of a run: attnscan trace", width)
    return Group(*blocks)


def _compared(comparison: Comparison) -> Iterator[Text]:
    """The two models, what was compared, and how many differences survive."""
    for letter_of_model, signature in zip("AB", comparison.signatures, strict=True):
        yield Text(f"{letter_of_model} ", style="dim").append_text(model_line(signature))
    pairs = int(comparison.model_labels[0].scores.every_key.pairs.max())
    matching = "each head of A and the most similar one of B"
    if comparison.match == "place":
        matching = "heads of one place"
    yield Text(f"{counted(pairs, 'pair')}, {counted(len(comparison.grid), 'head')}: {matching}")
    yield Text()
    rows = comparison.differences
    survive = f"{rows['survives'].sum():,} of {counted(rows['p'].count(), 'difference')} survive"
    below = int((rows["fdr"] <= FALSE_DISCOVERIES).sum() - rows["survives"].sum())
    smaller = f"; {below:,} beyond chance are smaller than {comparison.least:g}"
    yield Text.assemble((survive, "bold"), smaller)


def _most_similar(comparison: Comparison) -> str:
    """How many heads are most like the head of their own place, and how alike these are."""
    grid = comparison.grid
    unmoved = sum(head.place == tuple(comparison.matched[head.place]) for head in grid)
    model = plain(comparison.signatures[1].model)
    return (
        f"{unmoved} of {len(grid)} heads are most like the head of their own place in {model}; "
        "median divergence from the most similar head "
        f"{np.median(comparison.divergence):.3f} nats."
    )


def _table(comparison: Comparison, patterns: Sequence[str], width: int) -> Table:
    """A row for each pattern; heads are counted as `heads` does."""
    heads_by_model = [_count_by_kind(labels) for labels in comparison.model_labels]
    cells = []
    for pattern in patterns:
        rows = comparison.of(pattern)
        surviving = rows["difference"].where(rows["survives"], 0)
        rises = falls = "–"
        if surviving.max() > 0:
            rises = _at(comparison, surviving, int(surviving.argmax()))
        if surviving.min() < 0:
            falls = _at(comparison, surviving, int(surviving.argmin()))
        counts = [heads.get(pattern, 0) for heads in heads_by_model]
        correlation = comparison.correlation(pattern)
        survive = rows["survives"].sum()
        cells.append([named(pattern), *counts, correlation, survive, rises, falls])
    columns = [
        Column("pattern"),
        Column("heads A", ">", 2),
        Column("B", ">", 3),
        Column("rank", ">.2f", 4),
    ]
    columns += [Column("survive", ">"), Column("rises most"), Column("falls most", drop=1)]
    return table_of(columns, cells, width)


def _count_by_kind(labels: Labels) -> dict[str, int]:
    """How many heads each pattern and habit has."""
    return {kind.name: len(kind.heads) for _, kind in kinds_of(labels)}


def _at(comparison: Comparison, differences: pd.Series[float], place: int) -> str:
    """A head and its difference."""
    return f"{comparison.grid[place].name} {differences[place]:+.3f}"


def _differences(
    comparison: Comparison, patterns: Sequence[str], heads: Heads | None, top: int | None
) -> Table:
    """Some heads' differences, pattern by pattern; those that survive are bold."""
    cells: list[list[Any]] = []
    for pattern in patterns:
        for i, (number, row) in enumerate(comparison.of(pattern, heads, top).iterrows()):
            written = "" if np.isnan(row["difference"]) else f"{row['difference']:+.3f}"
            difference = Text(written, "bold" if row["survives"] else "")
            name = comparison.grid[cast(int, number)].name
            title = "" if i else named(pattern)
            cells.append([title, name, row["score_a"], row["score_b"], difference, row["se"]])
    columns = [
        Column("pattern"),
        Column("head"),
        Column("A", ">.3f"),
        Column("B", ">.3f"),
        Column("B − A", ">"),
    ]
    return table_of([*columns, Column("± se", ">.3f")], cells, 80)


def _changed(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """The heads with another label than before, by both labels."""
    a, b = comparison.model_labels
    matched = comparison.matched
    unsure = a.unsure | b.unsure[matched[..., 0], matched[..., 1]]
    moved = list(chain.from_iterable(comparison.changed.values()))
    sure = ""
    if moved:
        sure = f", {sum(not unsure[head.place] for head in moved)} of them without a ?"
    heads_in_all = counted(len(comparison.grid), "head")
    yield Text(f"{len(moved)} of {heads_in_all} changed their label{sure}", style="bold")
    for before, after, heads in _changed_marks(comparison):
        title = before.copy().append(" → ", "dim").append_text(after)
        blank = Text(" " * title.cell_len)
        entries = [Text(head.name + "?" * bool(unsure[head.place])) for head in heads]
        for i, line in enumerate(flowed(entries, width - 9)):
            beginning = Text("  ").append_text(blank if i else title)
            yield beginning.append("  ").append_text(line)


def _changed_marks(comparison: Comparison) -> list[tuple[Text, Text, list[Head]]]:
    """The marks of heads with another label than before, in both models; most heads first."""
    a, b = comparison.model_labels
    heads_by_marks = defaultdict(list)
    marks_by_text = {}
    for head in sorted(chain.from_iterable(comparison.changed.values())):
        before = _mark_at(a, head.place)
        after = _mark_at(b, tuple(comparison.matched[head.place]))
        heads_by_marks[before.plain, after.plain].append(head)
        marks_by_text[before.plain, after.plain] = (before, after)
    groups = [(*marks_by_text[texts], heads) for texts, heads in heads_by_marks.items()]
    return sorted(groups, key=lambda group: -len(group[2]))


def _mark_at(labels: Labels, place: tuple[int, int]) -> Text:
    """A head's mark without doubt; grey if it rests."""
    name = str(labels.among_words[place])
    rests = bool(labels.rests[place])
    return Text(mark(name, rests=rests), style="dim" if rests else color_of(name))


def similarity_view(
    similarity: Similarity, width: int, heads: Heads | None, nearest: int
) -> RenderableType:
    """Groups and the closest pairs of heads, or the nearest of the heads that are named."""
    signature = similarity.signature
    blocks: list[RenderableType] = [model_line(signature, f"  {signature.counts}"), ""]
    names = _names(similarity)
    if heads is None:
        pairs = similarity.closest(_CLOSEST)
        blocks += _groups(similarity, names, width)
        blocks += ["", Text("The closest two", style="bold")]
    else:
        pairs = []
        for head in map(similarity.grid.index, similarity.grid.select(heads)):
            pairs += [(head, neighbour) for neighbour in similarity.nearest(head, nearest)]
    columns = [
        Column("head"),
        Column("nearest"),
        Column("divergence", ">.3f"),
        Column("± se", ">.3f"),
    ]
    rows = []
    for a, b in pairs:
        rows.append([names[a], names[b], similarity.divergence[a, b], similarity.se[a, b]])
    note = (
        "divergence: Jensen-Shannon, in nats, from 0 (the same weights) to 0.693 (no key in "
        f"common), over {counted(similarity.queries, 'query', 'queries')}. {_MARKS}"
    )
    blocks += [table_of(columns, rows, 80), "", *wrapped(note, width)]
    return Group(*blocks)


def _names(similarity: Similarity) -> list[Text]:
    """Every head's name, with its mark."""
    names = []
    for head in similarity.grid:
        mark_of_head = marked(similarity.labels, head, with_name=False)
        names.append(Text(f"{head.name} ").append_text(mark_of_head))
    return names


def _groups(similarity: Similarity, names: Sequence[Text], width: int) -> Iterator[Text]:
    """The groups of two heads or more, each on lines of its own."""
    groups = [group for group in similarity.groups if len(group) > 1]
    alone = counted(len(similarity.grid) - sum(map(len, groups)), "head")
    title = f"{counted(len(groups), 'group')} within {similarity.within:g} nats, {alone} alone"
    yield Text(title, style="bold")
    for place, group in enumerate(groups, 1):
        for i, line in enumerate(flowed([names[head] for head in group], width - 5)):
            margin = "" if i else place
            yield Text(f"{margin:>3}  ", style="dim").append_text(line)
