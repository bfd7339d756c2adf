"""The picture of the map: what each head does, in the layer x head grid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from attnscan.results.behaviour import Labels
from attnscan.results.grid import Grid, Head
from attnscan.views.behaviour import kinds_of, why_unsure
from attnscan.views.palette import RESTING_OPACITY, letter, on_white, paper_color, readable_on, words
from attnscan.views.pictures import figure as shared

Cell = tuple[str, str]
"""A head's colour, and its mark."""
NO_ROOM = "No room for letters: --width gives more."


def map_figure(labels: Labels, width: float, command: str) -> Figure:
    """What each head does: a letter in its colour; pale where the head rests on special tokens.

    A label that is not sure has a question mark. `command` is the one that lists the same heads.
    """
    grid = labels.grid
    cell = cell_size(grid, width)
    shared.check_heads_can_be_seen(cell, grid, width, command)
    figure = shared.new_figure(width)
    ax = figure.subplots()
    lettered = draw_heads(ax, {head: _cell(labels, head) for head in grid}, grid, cell)
    note = f"?: {why_unsure(labels)}." if labels.unsure.any() else ""
    resting = " or ".join(words(kind.name) for kind in labels.resting)
    shared.caption(
        figure,
        f"Map{shared.of_kind(grid)}: what each head does, {labels.reading}.",
        f"Pale: more than half of its attention is on {resting}." if resting else "",
        note if lettered else NO_ROOM,
    )
    shared.legend(figure, _key(labels))
    shared.fit_height(figure, ax, lambda _: grid.shape[0] * cell, [ax])
    return figure


def _cell(labels: Labels, head: Head) -> Cell:
    """A head's cell: the letter of what it does among words, as on the terminal."""
    name = str(labels.among_words[head.place])
    color = on_white(paper_color(name), RESTING_OPACITY if labels.rests[head.place] else 1)
    return color, letter(name) + "?" * bool(labels.unsure[head.place])


def cell_size(grid: Grid, width: float, highest: float = shared.LONGEST) -> float:
    """How high and wide a head's cell is in a grid across a picture, in inches; the grid is at most `highest`."""
    layers, heads = grid.shape
    return min(shared.LARGEST_CELL, (width - 0.35) / heads, highest / layers)


def draw_heads(ax: Axes, cells: Mapping[Head, Cell], grid: Grid, cell: float) -> bool:
    """Draw every head's colour, and its mark if cells of `cell` inches have room for letters: whether they have."""
    colors = np.array([to_rgb(cells[head][0]) for head in grid]).reshape(*grid.shape, 3)
    shared.heat(ax, colors, border=min(1.5, 7 * cell))
    shared.number_heads(ax, grid, cell, cell)
    ax.set(xlabel="head", ylabel="layer")
    ax.xaxis.set_label_position("top")
    ax.xaxis.tick_top()
    ax.spines[:].set_visible(False)
    size = min(shared.SIZE, 0.8 * 72 * cell)
    if size < shared.SMALLEST:
        return False
    for head, (color, mark) in cells.items():
        fitting = min(size, shared.SIZE * 0.95 * cell / shared.width_of(mark))
        if fitting < shared.SMALLEST:
            mark, fitting = "?", size  # as on a narrow terminal
        ax.text(
            head.head,
            head.row,
            mark,
            ha="center",
            va="center_baseline",
            fontsize=fitting,
            color=readable_on(color),
            in_layout=False,
        )
    return True


def _key(labels: Labels) -> list[Patch]:
    """Each kind that there is in the order of the screen, and how many heads have it; heads that rest are pale."""
    kinds = [
        (kind.name, len(kind.heads), RESTING_OPACITY if group == "rest" else 1) for group, kind in kinds_of(labels)
    ]
    if none := int((labels.among_words == "").sum()):
        kinds.append(("", none, 1))
    return [
        Patch(color=on_white(paper_color(name), opacity), label=f"{letter(name)}  {words(name)} ({count})")
        for name, count, opacity in kinds
    ]
