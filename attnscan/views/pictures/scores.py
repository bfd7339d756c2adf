"""The pictures of scores: every head's for each pattern as small grids, and layer by layer; and those of two models.

These have a dot for each head: its scores in both models, pattern by pattern; or a map where alike ones are near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscan.results.classification import Classification
from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison
from attnscan.results.grid import Grid
from attnscan.results.ranking import Ranking
from attnscan.results.scores import FloatArray, ScoreTable
from attnscan.results.similarity import Similarity
from attnscan.views.palette import INK, letter, paper_color, words
from attnscan.views.pictures.lettering import shortened, shrunk, step_of, width_of, wrapped
from attnscan.views.pictures.map import LARGEST_CELL, check_heads_can_be_seen, of_kind, ruler_width, rulers
from attnscan.views.pictures.sheet import EMPTY, FAINT, LINE, LONGEST, MARGIN, Box, Sheet, scale_width

_GAP = 0.12  # inches between two panels
_ROOMY = 5.0  # inches, from where four panels stand side by side
_PANEL = 0.85  # inches: the height of a panel of lines
_KEY = 3.2 * LINE  # what stands in the place after the last panel
_QUANTITY = "above chance"
_WITHOUT = " Special tokens are removed, and rows renormalised."
_INTERVALS = "Upright lines: 95 % intervals of the best heads over pairs."
_STYLES: dict[str, dict[str, Any]] = {
    "best head": {"width": 1.0, "marker": "o"},
    "mean of the heads": {"width": 1.0, "dots": (3, 1.5)},
}

_COLUMNS = 2
_SPACING = 0.15
_DOT = 0.035
_FIRM, _PALE = 0.85, 0.25  # opacity of a difference that survives, and of one that does not
_SQUARE = 0.05
_NAME = 4.0  # points
_INSET = 0.15


@dataclass(frozen=True)
class _Panels:
    """A panel for each pattern, in rows, and a place for the key: after the last panel or beneath them all."""

    count: int
    columns: int
    left: float
    size: tuple[float, float]
    above: float
    """What each panel needs above, for its name."""
    beneath: float
    """What the lowest panels need beneath, for their rulers."""
    note: list[str]
    key_width: float
    """What the key needs: it stands beneath all panels where there is less beside the last one."""

    @property
    def _key_beneath(self) -> bool:
        beside = self.columns * self.rows - self.count
        return beside * (self.size[0] + _GAP) - _GAP < self.key_width

    @property
    def rows(self) -> int:
        return -(-self.count // self.columns)

    @property
    def height(self) -> float:
        panels = self.rows * (self.above + self.size[1]) + self.beneath
        return 2 * MARGIN + panels + (_KEY if self._key_beneath else 0) + LINE * len(self.note)

    def box(self, p: int) -> Box:
        """The place of a panel."""
        row, column = divmod(p, self.columns)
        y = MARGIN + row * (self.above + self.size[1]) + self.above
        return Box(self.left + column * (self.size[0] + _GAP), y, *self.size)

    def key(self) -> tuple[float, float]:
        """The place of the key: clear of the ruler of the panel above."""
        if self._key_beneath:
            return MARGIN, MARGIN + self.rows * (self.above + self.size[1]) + self.beneath + 0.6 * LINE
        box = self.box(self.count)
        return box.x, box.y + max(0.0, self.beneath - self.above) + 0.2 * LINE

    def is_lowest(self, p: int) -> bool:
        """Whether no panel follows beneath."""
        return p + self.columns >= self.count

    def begin(self, width: float, *, cells: int = 0, vector: bool = True) -> Sheet:
        """A sheet with the note at its foot."""
        sheet = Sheet(width, self.height, cells=cells, vector=vector)
        sheet.lines(self.note, self.height - MARGIN - len(self.note) * LINE, FAINT)
        return sheet


def scores_sheet(result: Classification | Ranking, width: float, table: ScoreTable, vector: bool) -> Sheet:
    """How far every head is above chance for each pattern: small layer x head grids, all on one scale from 0 to 1."""
    grid = result.scores.grid
    layers, heads = grid.shape
    count, left = len(result.scores.patterns), ruler_width(layers)

    note = _note(result, width)

    def panels(columns: int) -> _Panels:
        across = (width - left - MARGIN - _GAP * (columns - 1)) / columns
        size = across, min(max(layers * min(LARGEST_CELL, across / heads), 1.5 * LINE), LONGEST)
        return _Panels(count, columns, left, size, 1.3 * LINE, 2.3 * LINE, note, scale_width(1.0, _QUANTITY))

    fewest = _fewest_columns(count, width)
    fitting = (layout for layout in map(panels, range(fewest, count)) if layout.height <= 2 * width)
    layout = next(fitting, panels(count))
    check_heads_can_be_seen(min(layout.size[0] / heads, layout.size[1] / layers), grid, width)
    sheet = layout.begin(width, cells=count * len(grid), vector=vector)
    for p in range(count):
        box = layout.box(p)
        _title(sheet, box, result, p)
        sheet.heat(box, _above(table, p), 1.0)
        sheet.frame(box)
        _say_if_empty(sheet, box, result, table, p)
        rulers(sheet, box, grid, down=p % layout.columns == 0, across=layout.is_lowest(p), beneath=True)
    x, y = layout.key()
    sheet.scale(x, y + LINE / 2, 1.0, _QUANTITY)
    if np.isnan(table.score).any():
        sheet.box(Box(x + 0.1, y + 2 * LINE - 0.05, 0.16, 0.1), EMPTY, hatched=True)
        sheet.text(x + 0.3, y + 2 * LINE, "no score")
    return sheet


def layers_sheet(result: Classification | Ranking, width: float, table: ScoreTable) -> Sheet:
    """By layer for each pattern, how far above chance: the best head, named where it is best of all, and the mean."""
    count = len(result.scores.patterns)
    columns = _fewest_columns(count, width)
    left = MARGIN + LINE + width_of("0.5") + 0.05
    size = (width - left - MARGIN - _GAP * (columns - 1)) / columns, _PANEL
    intervals = [] if np.isnan(table.se).all() else wrapped(_INTERVALS, width - 2 * MARGIN)
    note = [*_note(result, width), *intervals]
    layout = _Panels(count, columns, left, size, 3.1 * LINE, 2.3 * LINE, note, 0.3 + max(map(width_of, _STYLES)))
    layers, _ = result.scores.grid.shape
    check_heads_can_be_seen(size[0] / layers, result.scores.grid, width)
    sheet = layout.begin(width)
    for p in range(count):
        box = layout.box(p)
        _title(sheet, box, result, p, higher=0.8 * LINE)
        _axes(sheet, box, result.scores.grid, first=p % columns == 0, last=layout.is_lowest(p))
        _lines(sheet, box, result.scores.grid, table, p, paper_color(result.scores.patterns[p]))
        _say_if_empty(sheet, box, result, table, p)
    x, y = layout.key()
    for i, (name, style) in enumerate(_STYLES.items()):
        sheet.line([x, x + 0.12, x + 0.24], [y + (i + 0.5) * LINE] * 3, INK, **style)
        sheet.text(x + 0.3, y + (i + 0.5) * LINE, name)
    return sheet


def _fewest_columns(count: int, width: float) -> int:
    return min(count, 4 if width >= _ROOMY else 2)


def _title(sheet: Sheet, box: Box, result: Classification | Ranking, pattern: int, higher: float = 0) -> None:
    name = result.scores.patterns[pattern]
    text, size = shrunk(f"{letter(name)} {name}", box.width)
    sheet.text(box.x, box.y - 0.6 * LINE - higher, text, size=size)


def _axes(sheet: Sheet, box: Box, grid: Grid, *, first: bool, last: bool) -> None:
    """A frame from chance, 0, to perfect, 1, by layer; the names of axes at the outermost panels alone."""
    for value in (0, 0.5, 1):
        y = box.y + box.height * (1 - value)
        sheet.line([box.x, box.x + box.width], [y, y], "#d9d9d9" if value else FAINT, 0.4)
        if first:
            sheet.text(box.x - 0.04, y, f"{value:g}", align="right")
    if first:
        sheet.text(MARGIN + LINE / 2, box.y + box.height / 2, _QUANTITY, align="center", upward=True)
    layers, _ = grid.shape
    numbers, pitch = grid.numbers(layers), box.width / layers
    for layer in range(0, layers, step_of(pitch, width_of(f"{layers - 1} "))):
        sheet.text(box.x + (layer + 0.5) * pitch, box.y + box.height + 0.55 * LINE, str(numbers[layer]), align="center")
    if last:
        sheet.text(box.x + box.width / 2, box.y + box.height + 1.5 * LINE, "layer", align="center")


def _lines(sheet: Sheet, box: Box, grid: Grid, table: ScoreTable, pattern: int, color: str) -> None:
    """The best head and the mean of every layer, as far as they were measured."""
    score = _above(table, pattern)
    layers, _ = grid.shape
    x = [box.x + (layer + 0.5) * box.width / layers for layer in range(layers)]

    def line(name: str, values: FloatArray, color: str) -> None:
        sheet.line(x, [box.y + box.height * (1 - value) for value in values], color, **_STYLES[name])

    best = _by_layer(np.max, score)
    line("mean of the heads", _by_layer(np.mean, score), color)
    line("best head", best, color)
    for layer, bounds in enumerate(_intervals(table, pattern)):
        sheet.line([x[layer]] * 2, [box.y + box.height * (1 - bound) for bound in bounds], color, 0.9)
    if np.nan_to_num(score).any():
        head = grid[np.nanargmax(score)]
        room = width_of(head.name) / 2
        middle = min(max(x[head.row], box.x + room), box.x + box.width - room)
        sheet.text(middle, box.y + box.height * (1 - best[head.row]) - 0.6 * LINE, head.name, align="center")


def _above(table: ScoreTable, pattern: int) -> FloatArray:
    """How far every head is above chance, 0 for those below it. Shape: [layer, head]; NaN without a score."""
    return table.above_chance[..., pattern].clip(0)


def _intervals(table: ScoreTable, pattern: int) -> Iterator[list[float]]:
    """Of each layer's best head the ends of its score's 95 % interval, as far above chance; NaN where there is none."""
    chance = np.broadcast_to(table.chance, table.score.shape)[..., pattern]
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = (((bound[..., pattern] - chance) / (1 - chance)).clip(0, 1) for bound in table.interval)
    for layer, scores in enumerate(_above(table, pattern)):
        best = int(np.nan_to_num(scores, nan=-1).argmax())
        yield [float(low[layer, best]), float(high[layer, best])]


def _by_layer(what: Callable[[FloatArray], float], values: FloatArray) -> FloatArray:
    """Over the heads that have a value; NaN where a layer has none. Shape: [layer, head] -> [layer]."""
    there = (row[~np.isnan(row)] for row in values)
    return np.array([what(row) if row.size else np.nan for row in there])


def _say_if_empty(sheet: Sheet, box: Box, result: Classification | Ranking, table: ScoreTable, pattern: int) -> None:
    """Why a panel is empty, in it."""
    if not np.isnan(table.score[..., pattern]).all():
        return
    name = result.scores.patterns[pattern]
    if isinstance(result, Classification) and name in result.not_measured:
        why = "not measured"
    else:
        why = "no eligible word" if isinstance(result, Classification) else "no score"
    room = width_of(why) + 0.08
    x, y = box.x + box.width / 2, box.y + box.height / 2
    sheet.box(Box(x - room / 2, y - 0.6 * LINE, room, 1.2 * LINE), "#ffffff")
    sheet.text(x, y, why, align="center", color=FAINT)


def _note(result: Classification | Ranking, width: float) -> list[str]:
    """By which reading scores are."""
    without = _WITHOUT if result.reading.among_words else ""
    return wrapped(f"Scores{of_kind(result.scores.grid)} {result.reading}.{without}", width - 2 * MARGIN)


def comparison_sheet(comparison: Comparison, patterns: Sequence[str], width: float) -> Sheet:
    """A square panel for each pattern, A across and B upwards; a head that did not change lies on the diagonal.

    Pale heads differ by no more than chance may make one of so many differ.
    """
    left = MARGIN + LINE + width_of("0.5") + 0.05
    side = (width - left - MARGIN - _SPACING * (_COLUMNS - 1)) / _COLUMNS
    pitch = side + 2.6 * LINE
    rows = -(-len(patterns) // _COLUMNS)
    inner = width - 2 * MARGIN
    titles = [signature.title for signature in comparison.signatures]
    if titles[0] == titles[1]:  # two checkpoints of a run may differ by their directories alone
        titles = [signature.model for signature in comparison.signatures]
    directions = zip(("A across", "B upwards"), titles, strict=True)
    axes = [shortened(f"{direction}: {title}", inner) for direction, title in directions]
    pale = wrapped(
        f"pale: the difference does not survive a false discovery rate of {100 * FALSE_DISCOVERIES:g} %, "
        f"or is smaller than {comparison.least:g}",
        inner,
    )
    sheet = Sheet(width, MARGIN + rows * pitch + (len(axes) + len(pale) + 1.2) * LINE)
    for i, pattern in enumerate(patterns):
        row, column = divmod(i, _COLUMNS)
        box = Box(left + column * (side + _SPACING), MARGIN + 1.3 * LINE + row * pitch, side, side)
        _panel(sheet, box, comparison, pattern, first=column == 0)
    below = MARGIN + rows * pitch + 0.1 * LINE
    sheet.lines(axes, below)
    sheet.lines(pale, below + len(axes) * LINE, FAINT)
    return sheet


def _panel(sheet: Sheet, box: Box, comparison: Comparison, pattern: str, *, first: bool) -> None:
    p = comparison.patterns.index(pattern)
    correlation = comparison.correlation(pattern)
    title, rank = f"{letter(pattern)} {pattern}", "" if np.isnan(correlation) else f"rank {correlation:.2f}"
    beside = width_of(f"{title}  {rank}") <= box.width
    text, size = shrunk(f"{title}  {rank}" if beside else title, box.width)
    sheet.text(box.x, box.y - 0.6 * LINE, text, size=size)
    if not beside:
        sheet.text(box.x + 0.04, box.y + 0.7 * LINE, rank, color=FAINT)
    sheet.frame(box)
    sheet.line([box.x, box.x + box.width], [box.y + box.height, box.y], "#d9d9d9", 0.5)
    for value in (0, 0.5, 1):
        sheet.text(box.x + box.width * value, box.y + box.height + 0.55 * LINE, f"{value:g}", align="center")
        if first:
            sheet.text(box.x - 0.04, box.y + box.height * (1 - value), f"{value:g}", align="right")
    across, up = (table.score[..., p].ravel() for table in comparison.tables)
    survives = comparison.survives[..., p].ravel()
    for head in np.argsort(survives, kind="stable"):  # those that survive on top
        x, y = across[head], up[head]
        if not (np.isnan(x) or np.isnan(y)):
            place = box.x + box.width * x - _DOT / 2, box.y + box.height * (1 - y) - _DOT / 2
            sheet.box(Box(*place, _DOT, _DOT), paper_color(pattern), _FIRM if survives[head] else _PALE)
    if np.isnan(across).all():
        sheet.text(box.x + box.width / 2, box.y + box.height / 2, "no eligible word", align="center", color=FAINT)


def similarity_sheet(similarity: Similarity, width: float) -> Sheet:
    """Each head at its place, in its label's colour, with its name."""
    size = width - 2 * MARGIN
    note = (
        f"{similarity.map_share:.0%} of all squared distances between heads are in this map; near heads attend alike."
    )
    lines = wrapped(note, size)
    labels = list(dict.fromkeys(str(label) for label in np.sort(similarity.label)))
    sheet = Sheet(width, size + (len(lines) + len(labels) + 0.8) * LINE + 2 * MARGIN)
    box = Box(MARGIN, MARGIN, size, size)
    sheet.frame(box)
    low, high = similarity.map.min(0), similarity.map.max(0)
    scale = (size - 2 * _INSET) / max(float((high - low).max()), 1e-12)  # one for both: distances are what it shows
    middle = (low + high) / 2
    for number, place in enumerate(similarity.map):
        x, y = (box.x + size / 2 + (place[0] - middle[0]) * scale, box.y + size / 2 - (place[1] - middle[1]) * scale)
        sheet.box(Box(x - _SQUARE / 2, y - _SQUARE / 2, _SQUARE, _SQUARE), paper_color(str(similarity.label[number])))
        name = similarity.heads[number].name
        inside = x + _SQUARE + width_of(name, _NAME) < width - MARGIN
        sheet.text(
            x + (_SQUARE if inside else -_SQUARE), y, name, align="left" if inside else "right", size=_NAME, color=FAINT
        )
    sheet.lines(lines, box.y + size + 0.3 * LINE)
    y = box.y + size + (len(lines) + 0.8) * LINE
    for label in labels:
        text = f"{letter(label)} {label or words(label)} ({int((similarity.label == label).sum())})"
        sheet.entry(MARGIN, y, text, paper_color(label), gap=0.05)
        y += LINE
    return sheet
