"""The picture of what heads are worth: effects with their errors, or a grid of single heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscan.results.ablation import Ablation, Effect, Quantity
from attnscan.views.palette import COLORS, letter
from attnscan.views.pictures.lettering import shortened, shrunk, width_of, wrapped
from attnscan.views.pictures.map import LARGEST_CELL, ruler_width, rulers
from attnscan.views.pictures.sheet import EMPTY, FAINT, LINE, MARGIN, Box, KeyEntry, Sheet, draw_key, height_of

_LOSS, _GAIN = COLORS["bag-of-words"], COLORS["next-word"]
_ROW = 1.4 * LINE
_GAP = 0.01  # around each cell
_TICK = 0.008  # how wide
_PALE = "#c4c4c4"


def ablation_sheet(ablation: Ablation, width: float) -> Sheet:
    """A panel for each quantity: a row for each set or, where all sets are single heads, the layer x head grid."""
    return _grids(ablation, width) if ablation.alone else _rows(ablation, width)


def _rows(ablation: Ablation, width: float) -> Sheet:
    names = [effect.set.name for effect in ablation.of(ablation.quantities[0])]
    inner = width - 2 * MARGIN
    sense = {False: "more is a loss", True: "less is a loss"}
    titles = [
        wrapped(f"{known.name}: effect in {known.unit}, ± 95 % ({sense[known.larger_is_better]})", inner)
        for known in ablation.quantities
    ]
    key = wrapped("grey: the controls, less their mean", inner)
    longest = max(map(len, titles))
    height = len(names) * _ROW + (2.4 + longest + len(key)) * LINE
    sheet = Sheet(width, MARGIN + height * len(ablation.quantities))
    texts = [f"{letter(name)} {name}" if name in COLORS else name for name in names]
    left = MARGIN + min(0.45 * width, max(map(width_of, texts))) + 0.08
    for i, quantity in enumerate(ablation.quantities):
        top = MARGIN + i * height
        sheet.lines(titles[i], top)
        box = Box(left, top + (0.3 + longest) * LINE, width - left - MARGIN - 0.1, len(names) * _ROW)
        effects = ablation.of(quantity)
        _axis(sheet, box, span := _span(effects))
        sheet.lines(key, box.y + box.height + 1.1 * LINE, FAINT)
        for row, effect in enumerate(effects):
            y = box.y + (row + 0.5) * _ROW
            sheet.text(left - 0.06, y, shortened(texts[row], left - MARGIN - 0.06), align="right")
            _point(sheet, box, y, effect, span)
    return sheet


def _span(effects: Sequence[Effect]) -> tuple[float, float]:
    """The range of the axis: zero, every effect with its interval, and every control."""
    known = [effect for effect in effects if not np.isnan(effect.effect)]
    ends = [effect.effect + sign * np.nan_to_num(effect.interval) for effect in known for sign in (-1, 1)]
    ends += [other - effect.control for effect in known for other in effect.others]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return (low, high) if high > low else (low - 1, high + 1)


def _axis(sheet: Sheet, box: Box, span: tuple[float, float]) -> None:
    low, high = span
    for value in dict.fromkeys((low, 0.0, high)):
        x = _x(box, value, span)
        sheet.line([x, x], [box.y, box.y + box.height], FAINT if value == 0 else "#d9d9d9", 0.5)
        if value == 0 or abs(x - _x(box, 0, span)) > width_of("-0.0000"):
            text = f"{value:.2g}" if value else "0"
            middle = min(x, sheet.width - MARGIN - width_of(text) / 2)
            sheet.text(middle, box.y + box.height + 0.6 * LINE, text, align="center")


def _point(sheet: Sheet, box: Box, y: float, effect: Effect, span: tuple[float, float]) -> None:
    if np.isnan(effect.effect):
        why = (
            "no head"
            if not effect.set.heads
            else "no others in its layers"
            if not effect.set.controls
            else "not measured"
        )
        sheet.text(_x(box, 0, span) + 0.05, y, why, color=FAINT)
        return
    color = COLORS.get(effect.set.name, _LOSS)
    x = _x(box, effect.effect, span)
    for other in effect.others:
        at = _x(box, other - effect.control, span)
        sheet.box(Box(at - _TICK / 2, y - _ROW / 4, _TICK, _ROW / 2), _PALE)
    if not np.isnan(effect.interval):
        ends = [_x(box, effect.effect + sign * effect.interval, span) for sign in (-1, 1)]
        sheet.line(ends, [y, y], color, 0.8)
    sheet.box(Box(x - 0.025, y - 0.025, 0.05, 0.05), color)


def _x(box: Box, value: float, span: tuple[float, float]) -> float:
    low, high = span
    return box.x + box.width * (value - low) / (high - low)


def _grids(ablation: Ablation, width: float) -> Sheet:
    layers, heads = ablation.grid.shape
    left = ruler_width(layers)
    side = min(LARGEST_CELL, (width - left - MARGIN) / heads)
    inner = width - 2 * MARGIN
    sure = {quantity: [e for e in ablation.of(quantity) if e.leads] for quantity in ablation.quantities}
    most_of = {quantity: max((abs(e.loss) for e in effects), default=0.0) for quantity, effects in sure.items()}
    keys = {quantity: _key(most_of[quantity], quantity) for quantity in ablation.quantities}
    below = max(height_of(key, inner) for key in keys.values())
    height = side * layers + 3.6 * LINE + below
    sheet = Sheet(width, MARGIN + height * len(ablation.quantities))
    for i, quantity in enumerate(ablation.quantities):
        top, most = MARGIN + i * height, most_of[quantity] or 1.0
        title, size = shrunk(f"{quantity.name}: what each head is worth", inner)
        sheet.text(MARGIN, top + LINE / 2, title, size=size)
        grid = Box(left, top + 3.2 * LINE, side * heads, side * layers)
        rulers(sheet, grid, ablation.grid)
        sheet.box(grid, EMPTY)
        for effect in ablation.of(quantity):
            if np.isnan(effect.loss):
                continue
            (head,) = effect.set.heads
            x, y = grid.x + head.head * side, grid.y + head.row * side
            cell = Box(x + _GAP, y + _GAP, side - 2 * _GAP, side - 2 * _GAP)
            sheet.box(cell, "#ffffff")
            if effect in sure[quantity]:
                sheet.box(cell, _LOSS, max(0.0, effect.loss) / most)
        draw_key(sheet, keys[quantity], grid.y + grid.height + 0.2 * LINE)
    return sheet


def _key(most: float, quantity: Quantity) -> list[KeyEntry]:
    blank = KeyEntry("blank: another head of its layer costs as much")
    if not most:
        return [blank]
    unit = KeyEntry(quantity.unit)
    return [KeyEntry(f"worth {most:.2g} more than others", _LOSS), unit, blank]
