"""The screens of `compare`, what sets two models apart, and of `similar`, which heads attend alike."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.grid import Heads
from attnscan.text import counted, plain
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import letter
from attnscan.views.terminal.parts import (
    Column,
    color_of,
    flowed,
    model_line,
    named,
    table_of,
    wrapped,
)

_CLOSEST = 10
_UNSURE = "?: the label changed in more than 5 % of bootstrap resamples."


def comparison_view(
    comparison: Comparison,
    patterns: Sequence[str],
    width: int,
    heads: Heads | None = None,
    top: int | None = None,
) -> RenderableType:
    """A row for each pattern, and the heads that follow another one than before.

    With `heads` or `top`, the differences of those heads, or the greatest of each pattern, in lines of their own.
    """
    rows, grid = comparison.differences, comparison.grid
    matching = (
        "heads of one place"
        if comparison.match == "place"
        else "each head of A and the most similar one of B"
    )
    survive = f"{rows['survives'].sum():,} of {counted(rows['p'].count(), 'difference')} survive"
    below = int((rows["fdr"] <= FALSE_DISCOVERIES).sum() - rows["survives"].sum())
    smaller = f"; {below:,} beyond chance are smaller than {comparison.least:g}"
    pairs = int(comparison.model_labels[0].scores.every_key.pairs.max())
    blocks: list[RenderableType] = [
        Text("A ", style="dim").append_text(model_line(comparison.signatures[0])),
        Text("B ", style="dim").append_text(model_line(comparison.signatures[1])),
        Text(f"{counted(pairs, 'pair')}, {counted(len(grid), 'head')}: {matching}"),
        "",
        Text.assemble((survive, "bold"), smaller),
        "",
        _table(comparison, patterns, width),
        "",
    ]
    if heads is not None or top is not None:
        title = Text("Head by head; bold: the difference survives", style="bold")
        blocks += [title, _differences(comparison, patterns, heads, top)]
    else:
        blocks += _changed(comparison, width)
    if comparison.match == "nearest":
        unmoved = sum(head.place == tuple(comparison.matched[head.place]) for head in grid)
        alike = f"{unmoved} of {len(grid)} heads are most like the head of their own place in"
        median = f"median divergence from the most similar head {np.median(comparison.divergence):.3f} nats."
        blocks += [
            "",
            *wrapped(f"{alike} {plain(comparison.signatures[1].model)}; {median}", width, style=""),
        ]
    note = (
        "rank: Spearman's correlation of the two models' scores over heads. survive: the differences, B minus A, of "
        f"{comparison.least:g} or more that are beyond chance among those of all heads and patterns, by t-tests that "
        f"are paired and clustered by pair, at a false discovery rate of {100 * FALSE_DISCOVERIES:g} %. "
        f"rises, falls: the greatest of these. {_UNSURE}"
    )
    by_tokens = bool({"identical", "cross-sentence"} & set(patterns))
    tokens = f"identical, cross-sentence: {comparison.alike}" * by_tokens
    return Group(*blocks, "", *wrapped(note, width), *wrapped(tokens, width))


def _table(comparison: Comparison, patterns: Sequence[str], width: int) -> Table:
    """A row for each pattern; heads are counted as `heads` does."""
    of_models = [
        {kind.name: len(kind.heads) for _, kind in kinds_of(labels)}
        for labels in comparison.model_labels
    ]
    cells = []
    for pattern in patterns:
        rows = comparison.of(pattern)
        surviving = rows["difference"].where(rows["survives"], 0)
        rises, falls = (
            f"{comparison.grid[at].name} {surviving[at]:+.3f}"
            for at in (surviving.argmax(), surviving.argmin())
        )
        counts = [heads.get(pattern, 0) for heads in of_models]
        extremes = rises if surviving.max() > 0 else "–", falls if surviving.min() < 0 else "–"
        cells.append(
            [
                named(pattern),
                *counts,
                comparison.correlation(pattern),
                rows["survives"].sum(),
                *extremes,
            ]
        )
    columns = [
        Column("pattern"),
        Column("heads A", ">", 2),
        Column("B", ">", 3),
        Column("rank", ">.2f", 4),
    ]
    columns += [Column("survive", ">"), Column("rises most"), Column("falls most", drop=1)]
    return table_of(columns, cells, width)


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
            cells.append(
                [
                    "" if i else named(pattern),
                    name,
                    row["score_a"],
                    row["score_b"],
                    difference,
                    row["se"],
                ]
            )
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
    (a, b), matched = comparison.model_labels, comparison.matched
    unsure = a.unsure | b.unsure[matched[..., 0], matched[..., 1]]
    moved = [head for heads in comparison.changed.values() for head in heads]
    of_these = (
        f", {sum(not unsure[head.place] for head in moved)} of them without a ?" if moved else ""
    )
    yield Text(
        f"{len(moved)} of {counted(len(comparison.grid), 'head')} changed their label{of_these}",
        style="bold",
    )
    for (before, after), heads in comparison.changed.items():
        title = (
            Text(letter(before), color_of(before))
            .append(" → ", "dim")
            .append(letter(after), color_of(after))
        )
        entries = [Text(head.name + "?" * bool(unsure[head.place])) for head in heads]
        for i, line in enumerate(flowed(entries, width - 9)):
            yield (
                Text("  ")
                .append_text(Text(" " * title.cell_len) if i else title)
                .append("  ")
                .append_text(line)
            )


def similarity_view(
    similarity: Similarity, width: int, heads: Heads | None, nearest: int
) -> RenderableType:
    """Groups and the closest pairs of heads, or the nearest of the heads that are named."""
    blocks: list[RenderableType] = [
        model_line(similarity.signature, f"  {similarity.signature.counts}"),
        "",
    ]
    grid, labels, names = similarity.grid, similarity.labels, list[Text]()
    for head in grid:
        label, doubt = str(labels.label[head.place]), "?" * bool(labels.unsure[head.place])
        names.append(Text(f"{head.name} ").append(letter(label) + doubt, style=color_of(label)))
    if heads is None:
        pairs, groups = (
            similarity.closest(_CLOSEST),
            [group for group in similarity.groups if len(group) > 1],
        )
        ungrouped = counted(len(grid) - sum(map(len, groups)), "head")
        title = (
            f"{counted(len(groups), 'group')} within {similarity.within:g} nats, {ungrouped} alone"
        )
        blocks.append(Text(title, style="bold"))
        for place, group in enumerate(groups, 1):
            for i, line in enumerate(flowed([names[head] for head in group], width - 5)):
                blocks.append(Text(f"{'' if i else place:>3}  ", style="dim").append_text(line))
        blocks += ["", Text("The closest two", style="bold")]
    else:
        chosen = map(grid.index, grid.select(heads))
        pairs = [
            (head, neighbour) for head in chosen for neighbour in similarity.nearest(head, nearest)
        ]
    columns = (
        Column("head"),
        Column("nearest"),
        Column("divergence", ">.3f"),
        Column("± se", ">.3f"),
    )
    rows = [
        [names[a], names[b], similarity.divergence[a, b], similarity.se[a, b]] for a, b in pairs
    ]
    note = (
        f"divergence: Jensen-Shannon, in nats, from 0 (the same weights) to 0.693 (no key in common), over "
        f"{counted(similarity.queries, 'query', 'queries')}. {_UNSURE}"
    )
    return Group(*blocks, table_of(columns, rows, 80), "", *wrapped(note, width))
