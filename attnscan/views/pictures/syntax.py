"""The picture of `syntax`: what each head follows, and how often the best head of each relation is right."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from attnscan.results.intervals import half_width
from attnscan.results.syntax import DEPENDENT, FEW, FEWEST, HEAD, Row, Syntax
from attnscan.results.terms import counted
from attnscan.views.palette import INK, SYNTAX_COLORS, on_white, syntax_opacity
from attnscan.views.pictures import figure as shared
from attnscan.views.pictures.map import NO_ROOM, cell_size, draw_heads

_ROW = 0.2  # inches, of a relation
_OFFSET = "#8a8a8a"
_MOST_ROWS = int(0.55 * shared.LONGEST / _ROW)


def syntax_figure(result: Syntax, width: float) -> Figure:
    """The map of heads by what they follow; below it bars of accuracy by relation, one column a direction."""
    grid, layers = result.grid, result.grid.shape[0]
    cell = cell_size(grid, width, 0.45 * shared.LONGEST)
    shared.check_heads_can_be_seen(cell, grid, width, "syntax --treebank FILE")
    every = _relations(result)
    relations = every[:_MOST_ROWS]
    figure = shared.new_figure(width)
    heights = [layers * cell, _ROW * len(relations)] if relations else [layers * cell]
    spec = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    ax = figure.add_subplot(spec[0, :])
    marks = {head: result.letter(head) for head in grid}
    lettered = draw_heads(ax, {head: (_color(mark), mark) for head, mark in marks.items()}, grid, cell)
    said = ["" if lettered else NO_ROOM]
    if relations:
        said.append("Bars: how often the most attended other word is the right one; *: the gain holds by Holm.")
    else:
        said.append(f"No relation is in {FEWEST} sentences, so that none has an accuracy.")
    if len(relations) < len(every):
        said.append(f"{len(relations)} of {len(every)} relations: attnscan syntax --all has all.")
    if result.sentences < FEW:
        said.append(f"Below {FEW} sentences, results may not hold in other texts.")
    sentences = counted(result.sentences, "sentence")
    shared.caption(figure, f"Map: what heads follow in {sentences}, {result.signature.reading}.", *said)
    for column, (direction, title) in enumerate(((HEAD, "word → head"), (DEPENDENT, "head → word"))):
        if relations:
            bars = figure.add_subplot(spec[1, column])
            _draw_bars(bars, result, relations, direction)
            names = [shared.shortened(relation, 0.25 * width) for relation in relations]
            bars.set_yticks(range(len(relations)), names if column == 0 else [""] * len(names))
            bars.set_title(title)
    shared.legend(figure, _key(result, list(marks.values()), bool(relations)))
    shared.fit_height(figure, ax, lambda _: layers * cell, [ax])
    return figure


def _color(mark: str) -> str:
    return on_white(SYNTAX_COLORS[mark.upper()], syntax_opacity(mark))


def _key(result: Syntax, marks: list[str], with_bars: bool) -> list[Artist]:
    """What letters and colours of the map say, and how many heads have each; and what else bars show."""
    kinds: list[Artist] = [
        Patch(color=_color(said[0]), label=f"{said[0]}  {said[2:]} ({marks.count(said[0])})")
        for said in result.legend()
        if said[0] in marks
    ]
    if not with_bars:
        return kinds
    held = [Line2D([], [], color=INK, marker="o", markersize=3, linewidth=0, label="in the second treebank")]
    return [
        *kinds,
        Patch(color=_OFFSET, label="best fixed rule"),
        Line2D([], [], color=INK, linewidth=0.8, label="95 % of the gain over it"),
        *(held if result.held is not None else []),
    ]


def _relations(result: Syntax) -> list[str]:
    """Those with an accuracy: what states a head first, then by the best head's gain."""
    best: dict[str, tuple[bool, float]] = {}
    for number, row in enumerate(result.rows):
        if len(order := result.order(number)):
            place = (*result.grid[int(order[0])].place, number)
            worth = bool(result.stated[place]), float(np.nan_to_num(result.gain[place]))
            best[row.relation] = max(worth, best.get(row.relation, worth))
    return sorted(best, key=lambda relation: best[relation], reverse=True)


def _draw_bars(ax: Axes, result: Syntax, relations: list[str], direction: str) -> None:
    """For each relation the accuracy of its best head, and that of the best rule; the head's name at the right."""
    names = [""] * len(relations)
    for y, relation in enumerate(relations):
        row = Row(relation, direction)
        if row not in result.rows:
            continue
        number = result.rows.index(row)
        order = result.order(number)
        if not len(order):
            ax.text(0.02, y, "too few", va="center", color=shared.FAINT)
            continue
        head = result.grid[int(order[0])]
        place = (*head.place, number)
        accuracy = float(np.nan_to_num(result.accuracy[place]))
        half = float(half_width(result.se[place], max(2, result.clusters)))
        ax.barh(y - 0.16, accuracy, height=0.42, color=_color(row.letter))
        ax.barh(y + 0.2, float(np.nan_to_num(result.rule_accuracy[number])), height=0.28, color=_OFFSET)
        if not np.isnan(half):
            ax.plot([max(accuracy - half, 0), min(accuracy + half, 1)], [y - 0.16] * 2, color=INK, linewidth=0.8)
        ax.plot(result.of_held("accuracy")[place], y - 0.16, "o", color=INK, markersize=3)
        names[y] = head.name + "*" * bool(result.holds[place])
    ax.set(xlim=(0, 1), ylim=(len(relations) - 0.5, -0.5))
    ax.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
    ax.grid(axis="x")
    ax.spines[["top", "right", "left"]].set_visible(False)
    right = ax.twinx()
    right.set(ylim=ax.get_ylim())
    right.set_yticks(range(len(relations)), names)
    right.spines[:].set_visible(False)
