"""Pictures with a panel a pattern or class: every head's score or share, scores by layer, and those of two models.

And the map of which heads are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.grid import Grid
from attnscan.results.heads import HeadScores
from attnscan.results.profile import Profile
from attnscan.results.scores import FloatArray, ScoreTable
from attnscan.views.palette import INK, letter, paper_color, words
from attnscan.views.pictures import figure as shared

_PANEL, _TOP = 0.85, 1.2  # inches from 0 to 1 in a panel of lines; its top, above which the next one begins
_FIRM, _PALE = 0.85, 0.25  # opacity of a difference that survives, and of one that does not


def scores_figure(result: HeadScores, width: float, command: str) -> Figure:
    """How far every head is above chance for each pattern: small layer x head grids, all on one scale from 0 to 1.

    `command` is the one that lists the same heads.
    """
    above = result.table.above_chance.clip(0)
    names = [f"{letter(name)} {name}" for name in result.scores.patterns]
    figure, axes = _grids(above, names, result.scores.grid, width, command, "above chance", _reading(result))
    for p, ax in enumerate(axes):
        _say_if_empty(ax, result, p)
    return figure


def profile_figure(profile: Profile, width: float) -> Figure:
    """The share of words' attention that every head gives to each class of keys, on one scale from 0 to 1."""
    grid, reading = profile.grid, profile.signature.reading
    special = " Start, middle, end: special tokens, of all attention." if reading.among_words else ""
    title = f"Where words' attention goes{shared.of_kind(grid)}, {reading}.{special}"
    figure, _ = _grids(profile.share, profile.classes, grid, width, "profile", "share of attention", title)
    return figure


def _grids(
    values: FloatArray, names: Sequence[str], grid: Grid, width: float, command: str, quantity: str, title: str
) -> tuple[Figure, list[Axes]]:
    """A layer x head grid for each name. Shape: `values` [layer, head, name], in [0, 1]; NaN is hatched."""
    layers, heads = grid.shape
    figure, axes, columns = shared.panels(len(names), width, "head", "layer")
    across = (width - 0.4) / columns / heads
    highest = max(min(2 * width, shared.LONGEST) / -(-len(axes) // columns) - 0.35, 0.4)
    down = min(max(min(shared.LARGEST_CELL, across), 0.2 / layers), highest / layers)
    shared.check_heads_can_be_seen(min(across, down), grid, width, command)
    for place, (ax, name) in enumerate(zip(axes, names, strict=True)):
        shown = shared.heat(ax, values[..., place], cmap=shared.COLORS, vmin=0, vmax=1)
        shared.number_heads(ax, grid, across, down)
        ax.set_title(shared.wrapped(name, across * heads - 0.05))
    shared.color_bar(figure, axes, shown, quantity)
    if np.isnan(values).any():
        shared.legend(figure, [Patch(label="no value", **shared.NO_VALUE)])
    shared.caption(figure, title)
    shared.fit_height(figure, axes[0], lambda _: layers * down)
    return figure, axes


def layers_figure(result: HeadScores, width: float, command: str) -> Figure:
    """By layer for each pattern, how far above chance: the best head, named where it is best of all, and the mean."""
    table, layers, patterns = result.table, len(result.table.score), result.scores.patterns
    figure, axes, columns = shared.panels(len(patterns), width, "layer", "above chance")
    across = (width - 0.4) / columns
    shared.check_heads_can_be_seen(across / layers, result.scores.grid, width, command)
    for p, (name, ax) in enumerate(zip(patterns, axes, strict=True)):
        _draw_layers(ax, result.scores.grid, table, p, paper_color(name))
        shared.number(ax.xaxis, result.scores.grid.numbers, across / layers)
        ax.set(xlim=(-0.5, layers - 0.5), ylim=(0, _TOP))
        ax.set_yticks(*shared.ZERO_TO_ONE)
        ax.grid(axis="y")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_title(shared.wrapped(f"{letter(name)} {name}", across - 0.05))
        _say_if_empty(ax, result, p)
    intervals = "" if np.isnan(table.se).all() else "Upright lines: 95 % intervals of the best heads over pairs."
    shared.caption(figure, _reading(result), intervals)
    best = Line2D([], [], color=INK, marker="o", markersize=2, label="best head")
    shared.legend(figure, [best, Line2D([], [], color=INK, linestyle="--", label="mean of the heads")])
    shared.fit_height(figure, axes[0], lambda _: _PANEL * _TOP)
    return figure


def _draw_layers(ax: Axes, grid: Grid, table: ScoreTable, pattern: int, color: str) -> None:
    """The best head of every layer with its interval, and the mean, as far as they were measured."""
    above = table.above_chance[..., pattern].clip(0)
    layers = np.flatnonzero(~np.isnan(above).all(axis=1))
    if not len(layers):
        return
    best = np.nanargmax(above[layers], axis=1)
    lines = np.full((2, len(above)), np.nan)
    lines[:, layers] = above[layers, best], np.nanmean(above[layers], axis=1)
    low, high = _interval(table, pattern)[:, layers, best]
    ax.plot(lines[1], color=color, linestyle="--")
    ax.plot(lines[0], color=color, marker="o", markersize=2)
    ax.vlines(layers, low, high, color=color, linewidth=0.9)
    top = int(lines[0, layers].argmax())
    layer = int(layers[top])
    if lines[0, layer]:
        name = grid[layer * above.shape[1] + int(best[top])].name
        place = layer / max(len(above) - 1, 1)
        align = "left" if place < 0.2 else "right" if place > 0.8 else "center"
        at = layer, float(np.nanmax([lines[0, layer], high[top]]))
        ax.annotate(name, at, (0, 2), textcoords="offset points", ha=align)


def _interval(table: ScoreTable, pattern: int) -> FloatArray:
    """The ends of scores' 95 % intervals, as far above chance. Shape: [2, layer, head]; NaN where there is none."""
    ends, chance = np.broadcast_arrays(np.stack(table.interval), table.chance)
    with np.errstate(invalid="ignore", divide="ignore"):
        above: FloatArray = ((ends - chance) / (1 - chance)).clip(0, 1)[..., pattern]
    return above


def _say_if_empty(ax: Axes, result: HeadScores, pattern: int) -> None:
    """Write in an empty panel why it is empty."""
    if np.isnan(result.table.score[..., pattern]).all():
        why = "no score"
        if result.of_input:
            is_measured = result.scores.patterns[pattern] not in result.not_measured
            why = "no eligible word" if is_measured else "not measured"
        box = {"facecolor": "white", "linewidth": 0, "pad": 2}
        ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=shared.FAINT, bbox=box)


def _reading(result: HeadScores) -> str:
    """By which reading scores are."""
    without = " Special tokens are removed, and rows renormalised." if result.reading.among_words else ""
    return f"Scores{shared.of_kind(result.scores.grid)} {result.reading}.{without}"


def comparison_figure(comparison: Comparison, patterns: Sequence[str], width: float) -> Figure:
    """A square panel for each pattern, A across and B upwards; a head that did not change lies on the diagonal.

    Pale heads differ by no more than chance may make one of so many differ.
    """
    figure, axes, columns = shared.panels(len(patterns), width, "A", "B")
    for name, ax in zip(patterns, axes, strict=True):
        rows, correlation = comparison.of(name), comparison.correlation(name)
        ax.axline((0, 0), (1, 1), color=shared.RULE, linewidth=0.5)
        for chosen, opacity in ((~rows["survives"], _PALE), (rows["survives"], _FIRM)):
            x, y = rows["score_a"][chosen], rows["score_b"][chosen]
            ax.scatter(x, y, s=5, color=paper_color(name), alpha=opacity, linewidth=0, clip_on=False)
        if rows["score_a"].isna().all():
            ax.text(0.5, 0.5, "no eligible word", ha="center", va="center", color=shared.FAINT)
        rank = "" if np.isnan(correlation) else f" rank {correlation:.2f}"
        ax.set_title(shared.wrapped(f"{letter(name)} {name}{rank}", (width - 0.4) / columns - 0.05))
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_xticks(*shared.ZERO_TO_ONE)
        ax.set_yticks(*shared.ZERO_TO_ONE)
    titles = [signature.title for signature in comparison.signatures]
    if titles[0] == titles[1]:  # two checkpoints of a run may differ by their directories alone
        titles = [signature.model for signature in comparison.signatures]
    pale = f"Pale: the difference does not survive a false discovery rate of {100 * FALSE_DISCOVERIES:g}\u00a0%, "
    pale += f"or is smaller than {comparison.least:g}."
    shared.caption(figure, f"A: {titles[0]}", f"B: {titles[1]}", pale)
    shared.fit_height(figure, axes[0], lambda across: across)
    return figure


def similarity_figure(similarity: Similarity, width: float) -> Figure:
    """Each head at its place, in its label's colour, with its name."""
    figure = shared.new_figure(width)
    ax = figure.subplots()
    labels, (places, share) = similarity.labels.label.ravel().tolist(), similarity.map
    x, y = places.T
    ax.scatter(x, y, s=9, color=[paper_color(label) for label in labels], marker="s", linewidth=0)
    ax.set(xticks=(), yticks=())
    ax.margins(0.1)
    ax.set_aspect("equal", adjustable="datalim")  # one scale: distances are what it shows
    for head, place in zip(similarity.grid, places, strict=True):
        ax.annotate(
            head.name,
            (float(place[0]), float(place[1])),
            (2.5, 0),
            textcoords="offset points",
            va="center",
            fontsize=shared.SMALLEST,
            color=shared.FAINT,
            in_layout=False,
        )
    shown = f"{share:.0%} of all squared distances between heads are in this map"
    shared.caption(figure, f"{shown}; near heads attend alike.")
    entries = {name: f"{letter(name)}  {name or words(name)} ({labels.count(name)})" for name in sorted({*labels})}
    shared.legend(figure, [Patch(color=paper_color(name), label=text) for name, text in entries.items()])
    shared.fit_height(figure, ax, lambda across: across)
    return figure
