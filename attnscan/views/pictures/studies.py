"""Pictures of studies: ablation, similarity, comparison, syntax and trace."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from attnscan.errors import check_known
from attnscan.results.ablation import Ablation, Effect
from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.syntax import FEW_SENTENCES, Syntax
from attnscan.results.trace import Trace
from attnscan.views import palette
from attnscan.views.palette import letter, on_white, paper_color, words
from attnscan.views.pictures.panels import (
    FAINT,
    GOLD,
    LETTER_WIDTH,
    MAX_HEIGHT,
    MIN_NAME_PITCH,
    MIN_NUMBER_PITCH,
    NO_BREAK,
    add_legend,
    draw_cells,
    draw_grids,
    draw_letters,
    finish,
    make_panels,
    name_ticks,
    wrapped,
)
from attnscan.views.pictures.scores import TICK_LABELS, TICKS, head_colors

CONTROL = "#a8a8a8"
SURVIVING_OPACITY = 0.85
"""Opacity of a difference that survives."""
PALE_OPACITY = 0.25
"""And of any other."""


def draw_ablation(ablation: Ablation, width: float) -> Figure:
    """A panel for each quantity: a row for each set with its controls.

    Of single heads, a panel is the layer x head grid.
    """
    if ablation.alone:
        return _draw_worth(ablation, width)
    by_quantity = ablation.by_quantity
    names = []
    for effect in next(iter(by_quantity.values())):
        name = effect.set.name
        title = f"{letter(name)} {name}" if name in palette.COLORS else name
        names.append(wrapped(title, 0.4 * width))
    figure, axes, _ = make_panels([""] * len(by_quantity), width, columns=1)
    for ax, (quantity, effects) in zip(axes, by_quantity.items(), strict=True):
        sense = "less is a loss" if quantity.larger_is_better else "more is a loss"
        title = f"{quantity.name}: effect in {quantity.unit}, ± 95 % ({sense})"
        ax.set_title(wrapped(title, 0.55 * width))
        for row, effect in enumerate(effects):
            _draw_effect(ax, row, effect)
        ax.axvline(0, color=FAINT, linewidth=0.5)
        ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
        ax.margins(x=0.1)
        ax.locator_params(axis="x", nbins=3)
        ax.tick_params(labelbottom=True)
        ax.grid(axis="x")
    high = 0.07 + 0.13 * max(name.count("\n") + 1 for name in names)
    return finish(figure, high * len(names), "Grey: the controls, less their mean.")


def _draw_effect(ax: Any, row: int, effect: Effect) -> None:
    """Draw a set's effect with its interval, and its controls as ticks."""
    if np.isnan(effect.effect):
        why = " not measured" if effect.set.heads else " no head"
        ax.text(0, row, why, va="center", color=FAINT)
    controls = np.array(effect.others) - effect.control
    ax.plot(controls, [row] * len(controls), "|", color=CONTROL)
    color = palette.COLORS.get(effect.set.name, GOLD)
    half = np.nan_to_num(effect.interval)
    ax.errorbar(effect.effect, row, xerr=half, fmt="s", color=color, markersize=3.5, elinewidth=0.8)


def _draw_worth(ablation: Ablation, width: float) -> Figure:
    """What each head is worth, as a share of the most that one is.

    It is 0 where another head of its layer costs as much.
    """
    worth = np.full((*ablation.grid.shape, len(ablation.by_quantity)), np.nan)
    titles = []
    for place, (quantity, effects) in enumerate(ablation.by_quantity.items()):
        for effect in effects:
            worth[(*effect.set.heads[0].place, place)] = effect.leads * np.maximum(effect.loss, 0)
        top = float(np.nanmax(worth[..., place], initial=0))
        most = f"up to {top:.2g} ({quantity.unit})"
        titles.append(f"{quantity.name}: what each head is worth, {most}")
        worth[..., place] /= top or 1
    caption = "Worth more than other heads. Palest: another head of its layer costs as much."
    return draw_grids(titles, worth, ablation.grid, width, "share of the most", caption)


def draw_similarity(similarity: Similarity, width: float) -> Figure:
    """Each head at its place, in its colour on the map, with its name."""
    labels = similarity.labels
    names = labels.among_words.ravel().tolist()
    places, share = similarity.map
    figure, (ax,), _ = make_panels([""], width)
    ax.scatter(*places.T, s=9, color=head_colors(labels), marker="s", linewidth=0)
    # one scale: distances are what it shows
    ax.set(xticks=(), yticks=(), aspect="equal", adjustable="datalim")
    ax.margins(0.1)
    style = {"textcoords": "offset points", "va": "center", "fontsize": 4, "in_layout": False}
    for head, place in zip(similarity.grid, places, strict=True):
        ax.annotate(head.name, place, (2.5, 0), color=FAINT, **style)
    legend = {}
    for name in sorted({*names}):
        entry = f"{letter(name)}  {name or words(name)}{NO_BREAK}({names.count(name)})"
        legend[entry] = paper_color(name)
    add_legend(figure, legend)
    caption = (
        f"{share:.0%} of all squared distances between heads are in this map; near heads attend "
        "alike."
    )
    resting = " or ".join(words(kind.name) for kind in labels.resting)
    pale = f"Pale: more than half of the attention is on {resting}." if resting else ""
    return finish(figure, None, caption, pale)


def draw_comparison(comparison: Comparison, width: float, patterns: Sequence[str] = ()) -> Figure:
    """A square panel for each pattern, A across and B upwards.

    A head that did not change lies on the diagonal.
    """
    patterns = patterns or comparison.patterns
    for name in patterns:
        check_known("pattern", name, comparison.patterns)
    titles = []
    for name in patterns:
        correlation = comparison.correlation(name)
        rank = "" if np.isnan(correlation) else f" rank {correlation:.2f}"
        titles.append(f"{letter(name)} {name}{rank}")
    figure, axes, _ = make_panels(titles, width, "A", "B")
    for name, ax in zip(patterns, axes, strict=True):
        rows = comparison.of(name)
        look: Any = {
            "s": 5,
            "c": paper_color(name),
            "alpha": np.where(rows["survives"], SURVIVING_OPACITY, PALE_OPACITY),
            "linewidth": 0,
            "clip_on": False,
        }
        ax.axline((0, 0), (1, 1), color=palette.RULE, linewidth=0.5)
        ax.scatter(rows["score_a"], rows["score_b"], **look)
        ax.set(xlim=(0, 1), xticks=TICKS, xticklabels=TICK_LABELS)
        ax.set(ylim=(0, 1), yticks=TICKS, yticklabels=TICK_LABELS)
        ax.grid()
    a, b = comparison.signatures
    models = (a.title, b.title)
    if a.title == b.title:  # checkpoints of a run: by directories
        models = (a.model, b.model)
    rate = f"a false discovery rate of {FALSE_DISCOVERIES:.0%}"
    pale = f"Pale: the difference does not survive {rate}, or is smaller than {comparison.least:g}."
    return finish(figure, None, f"A: {models[0]}", f"B: {models[1]}", pale)


def draw_syntax(result: Syntax, width: float) -> Figure:
    """The map of heads by what they follow."""
    marks = [result.letter(head) for head in result.grid]
    color_by_mark = {}
    for mark in marks:
        opacity = 0.5 if mark.islower() else 1
        color_by_mark[mark] = on_white(palette.SYNTAX_COLORS[mark.upper()], opacity)
    legend = {}
    for entry in result.legend():
        mark = entry[0]
        if mark in color_by_mark:
            legend[f"{mark}  {entry[2:]} ({marks.count(mark)})"] = color_by_mark[mark]
    captions = [f"Map: what heads follow in {result.count_inputs()}, {result.signature.reading}."]
    if result.sentences < FEW_SENTENCES:
        inputs = "sentences" if result.has_trees else "inputs"
        captions.append(f"Below {FEW_SENTENCES} {inputs}, results may not hold in other texts.")
    colors = [color_by_mark[mark] for mark in marks]
    return draw_letters(result.grid, marks, colors, legend, width, *captions)


def draw_trace(trace: Trace, width: float) -> Figure:
    """Heads down and checkpoints across, in the colours of the map; pale where a head rests."""
    figure, (ax,), across = make_panels([""], width, "checkpoint", "head")
    n_heads = len(trace.grid)
    n_checkpoints = len(trace.checkpoints)
    pitch = min(MIN_NAME_PITCH, MAX_HEIGHT / n_heads)
    colors = []
    for checkpoint in trace.checkpoints:
        labels = checkpoint.result.labels
        for name, rests in zip(labels.among_words.flat, labels.rests.flat, strict=True):
            opacity = palette.RESTING_OPACITY if rests else 1
            colors.append(on_white(paper_color(str(name)), opacity))
    rgba = to_rgba_array(colors).reshape(n_checkpoints, n_heads, 4).transpose(1, 0, 2)
    draw_cells(ax, rgba)
    titles = [checkpoint.title for checkpoint in trace.checkpoints]
    longest = max(map(len, titles))
    name_ticks(
        ax.xaxis,
        titles,
        across / n_checkpoints,
        max(MIN_NUMBER_PITCH, (longest + 1) * LETTER_WIDTH),
    )
    layer_size = trace.grid.shape[1]
    if pitch < MIN_NAME_PITCH:
        firsts = range(0, n_heads, layer_size)
        ax.set_yticks(firsts, [trace.grid[first].name for first in firsts])
    else:
        name_ticks(ax.yaxis, [head.name for head in trace.grid], pitch)
    for row in range(layer_size, n_heads, layer_size):
        ax.axhline(row - 0.5, color="white", linewidth=0.6)
    legend = {}
    for name in dict.fromkeys(name for rests, name in trace.kind_counts().index if not rests):
        legend[f"{letter(name)}  {words(name)}"] = paper_color(name)
    add_legend(figure, legend)
    captions = [f"What each head does, checkpoint by checkpoint, {trace.signature.reading}."]
    if any(checkpoint.result.labels.rests.any() for checkpoint in trace.checkpoints):
        captions.append("Pale: more than half of its attention is on special tokens.")
    return finish(figure, n_heads * pitch, *captions)
