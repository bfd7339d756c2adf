"""The picture of what heads are worth: effects with their errors, or a grid of single heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscan.results.ablation import Ablation, Effect, Quantity
from attnscan.views.palette import COLORS, letter
from attnscan.views.pictures.lettering import shortened, width_of
from attnscan.views.pictures.map import LARGEST_CELL, ruler_width, rulers
from attnscan.views.pictures.sheet import EMPTY, FAINT, LINE, MARGIN, Box, Sheet

_LOSS, _GAIN = COLORS["bag-of-words"], COLORS["next-word"]
_ROW = 1.4 * LINE
_GAP = 0.01  # around each cell
_TICK = 0.008  # how wide
_PALE = "#c4c4c4"


def ablation_sheet(found: Ablation, width: float) -> Sheet:
    """A panel for each quantity: a row for each set or, where all sets are single heads, the layer x head grid."""
    return _grids(found, width) if found.alone else _rows(found, width)


def _rows(found: Ablation, width: float) -> Sheet:
    names = [effect.set.name for effect in found.of(found.quantities[0])]
    height = len(names) * _ROW + 4.4 * LINE
    sheet = Sheet(width, MARGIN + height * len(found.quantities))
    texts = [f"{letter(name)} {name}" if name in COLORS else name for name in names]
    left = MARGIN + min(width / 3, max(map(width_of, texts))) + 0.08
    for i, quantity in enumerate(found.quantities):
        top = MARGIN + i * height
        sense = "less is a loss" if quantity.larger_is_better else "more is a loss"
        title = f"{quantity.name}: effect in {quantity.unit}, ± 95 % ({sense})"
        sheet.text(MARGIN, top + LINE / 2, shortened(title, width - 2 * MARGIN))
        box = Box(left, top + 1.3 * LINE, width - left - MARGIN - 0.1, len(names) * _ROW)
        effects = found.of(quantity)
        _axis(sheet, box, span := _span(effects))
        key = shortened("grey: the controls, less their mean", width - 2 * MARGIN)
        sheet.text(MARGIN, box.y + box.height + 1.6 * LINE, key, color=FAINT)
        for row, effect in enumerate(effects):
            y = box.y + (row + 0.5) * _ROW
            sheet.text(left - 0.06, y, shortened(texts[row], left), align="right")
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


def _grids(found: Ablation, width: float) -> Sheet:
    layers, heads = found.grid
    left = ruler_width(layers)
    side = min(LARGEST_CELL, (width - left - MARGIN) / heads)
    height = side * layers + 5.5 * LINE
    sheet = Sheet(width, MARGIN + height * len(found.quantities))
    for i, quantity in enumerate(found.quantities):
        top = MARGIN + i * height
        effects = [effect for effect in found.of(quantity) if not np.isnan(effect.loss)]
        most = max((abs(effect.loss) for effect in effects), default=0.0) or 1.0
        sheet.text(MARGIN, top + LINE / 2, shortened(f"{quantity.name}: what each head is worth", width - 2 * MARGIN))
        grid = Box(left, top + 3.2 * LINE, side * heads, side * layers)
        rulers(sheet, grid, found.grid)
        sheet.box(grid, EMPTY)
        for effect in effects:
            layer, head = effect.set.heads[0]
            x, y = grid.x + head * side, grid.y + layer * side
            cell = Box(x + _GAP, y + _GAP, side - 2 * _GAP, side - 2 * _GAP)
            sheet.box(cell, "#ffffff")
            sheet.box(cell, _LOSS if effect.loss > 0 else _GAIN, abs(effect.loss) / most)
        _key(sheet, grid.x, grid.y + grid.height + LINE, most, quantity)
    return sheet


def _key(sheet: Sheet, x: float, y: float, most: float, quantity: Quantity) -> None:
    for color, text in ((_LOSS, f"worth {most:.2g} more than others"), (_GAIN, "less")):
        sheet.entry(x, y, text, color)
        x += 0.14 + width_of(f"{text}  ")
    sheet.text(x, y, quantity.unit, color=FAINT)
