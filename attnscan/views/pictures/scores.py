"""Pictures of heads' scores, labels and profiles."""

import numpy as np
from matplotlib.figure import Figure

from attnscan.results.heads import HeadScores, Profile
from attnscan.results.scores import Labels
from attnscan.text import counted
from attnscan.views import palette
from attnscan.views.behaviour import attention_phrase, kinds_of, why_unscored, why_unsure
from attnscan.views.palette import letter, mark_of, on_white, paper_color, why_even_is_not, words
from attnscan.views.pictures.panels import (
    MIN_NUMBER_PITCH,
    NO_BREAK,
    draw_grids,
    draw_letters,
    finish,
    make_panels,
    name_ticks,
)

TICKS = (0, 0.5, 1)
TICK_LABELS = ("0", "0.5", "1")


def draw_map(result: HeadScores, width: float) -> Figure:
    """What each head does, by the screen's letter in its colour.

    It is pale where the head rests on special tokens.
    """
    labels = result.labels
    names = labels.among_words.ravel().tolist()
    marks = [mark_of(labels, head) for head in result.grid]
    colors = head_colors(labels)
    legend = {}
    for group, kind in kinds_of(labels):
        if group != "rest":  # which have the colours of what they do among words, paler
            entry = f"{letter(kind.name)}  {words(kind.name)}{NO_BREAK}({len(kind.heads)})"
            legend[entry] = paper_color(kind.name)
    if "" in names:
        legend[f"{letter('')}  {words('')}{NO_BREAK}({names.count('')})"] = paper_color("")
    resting = " or ".join(words(kind.name) for kind in labels.resting)
    heads = counted(int(labels.rests.sum()), "head rests", "heads rest")
    captions = (
        f"Map{attention_phrase(result.grid)}: what each head does, {labels.reading}.",
        f"Pale, {palette.RESTS}: {heads}, with more than half of the attention on {resting}."
        if resting
        else "",
        f"?: {why_unsure(labels)}." if labels.unsure.any() else "",
    )
    return draw_letters(result.grid, marks, colors, legend, width, *captions)


def head_colors(labels: Labels) -> list[str]:
    """The colour of every head by what it does among words; pale if it rests."""
    colors = []
    for name, rests in zip(labels.among_words.ravel().tolist(), labels.rests.flat, strict=True):
        opacity = palette.RESTING_OPACITY if rests else 1
        colors.append(on_white(paper_color(name), opacity))
    return colors


def draw_scores(result: HeadScores, width: float) -> Figure:
    """How far every head is above chance for each pattern."""
    above = result.table.above_chance
    titles = _titles(result)
    caption = _reading_caption(result)
    if "bag-of-words" in result.scores.patterns:
        caption += f" {why_even_is_not('bag-of-words').replace('This pattern', 'B')}"
    return draw_grids(titles, above, result.grid, width, "above chance", caption)


def draw_profile(result: Profile | HeadScores, width: float) -> Figure:
    """The share of words' attention that every head gives to each class of keys."""
    profile = result if isinstance(result, Profile) else result.profile
    reading = profile.signature.reading
    caption = f"Where words' attention goes{attention_phrase(profile.grid)}, {reading}."
    if reading.words_only:
        caption += " Start, middle, end: special tokens, of all attention."
    label = "share of attention"
    return draw_grids(profile.classes, profile.share, profile.grid, width, label, caption)


def draw_layers(result: HeadScores, width: float) -> Figure:
    """How far heads are above chance, by layer for each pattern: the best head, and the mean.

    The best head of all is named.
    """
    table = result.table
    grid = result.grid
    layers = np.arange(grid.shape[0])
    figure, axes, across = make_panels(_titles(result), width, "layer", "above chance")
    low, high = ((np.stack(table.interval) - table.chance) / (1 - table.chance)).clip(0, 1)
    above = table.above_chance.clip(0)
    best = np.nan_to_num(above, nan=-1).argmax(1)  # [layer, pattern]
    for p, (pattern, ax) in enumerate(zip(result.scores.patterns, axes, strict=True)):
        color = paper_color(pattern)
        best_heads = (layers, best[:, p], p)
        score = above[best_heads]
        end = high[best_heads]
        ax.plot(layers, np.nanmean(above[..., p], 1), "--", color=color)
        ax.plot(layers, score, "-o", color=color, markersize=2)
        ax.vlines(layers, low[best_heads], end, color=color, linewidth=0.9)
        top = int(np.nan_to_num(score).argmax())
        if score[top] > 0:
            name = grid[top * grid.shape[1] + int(best[top, p])].name
            side = ("left", "center", "right")[3 * top // len(layers)]
            point = (top, np.fmax(score, end)[top])
            ax.annotate(name, point, (0, 2), textcoords="offset points", ha=side)
        name_ticks(ax.xaxis, grid.numbers, across / len(layers), MIN_NUMBER_PITCH)
        ax.set(xlim=(-0.5, len(layers) - 0.5), ylim=(0, 1.2))
        ax.set(yticks=TICKS, yticklabels=TICK_LABELS)
        ax.grid(axis="y")
    caption = "Dots: the best head; dashed: the mean."
    if not np.isnan(table.se).all():
        caption += " Upright: 95 % intervals of the best heads over pairs."
    return finish(figure, 1.02, _reading_caption(result), caption)


def _titles(result: HeadScores) -> list[str]:
    """The patterns, and why a panel is empty."""
    titles = []
    for pattern in result.scores.patterns:
        title = f"{letter(pattern)} {pattern}"
        above = result.table.above_chance[..., result.scores.place_of(pattern)]
        if not len(result.order(pattern)):
            title += f": {why_unscored(result, pattern).partition(':')[0]}"
        elif not (above > 0).any():
            title += ": no head is above chance"
        titles.append(title)
    return titles


def _reading_caption(result: HeadScores) -> str:
    text = f"Scores{attention_phrase(result.grid)} {result.reading}."
    if result.reading.words_only:
        text += " Special tokens are removed, and rows renormalised."
    return text
