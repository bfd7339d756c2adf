"""The pictures of profiles: what every head's attention consists of, and how some heads' falls off with distance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import to_rgba

from attnscan.results.grid import Head
from attnscan.results.profile import FARTHEST, OFFSETS, Profile, joint_name
from attnscan.results.scores import FloatArray
from attnscan.views.palette import (
    COLORS,
    ITSELF_COLOR,
    OTHER_COLOR,
    PREDICTIVE_SHADE,
    PUNCTUATION_COLOR,
    SAME_KEYS_COLOR,
    on_white,
)
from attnscan.views.pictures.lettering import shortened, width_of, wrapped
from attnscan.views.pictures.map import LARGEST_CELL, check_heads_can_be_seen, ruler_width, rulers
from attnscan.views.pictures.panels import GAP, AxisLabels, Layout, best_layout
from attnscan.views.pictures.sheet import (
    DPI,
    FAINT,
    LINE,
    LONGEST,
    MARGIN,
    MOST_CELLS,
    Box,
    KeyEntry,
    Sheet,
    draw_key,
    height_of,
)

_TALLER = 1.5  # how much taller than wide a bar's place is, where the page is long enough
_GAP = 0.1  # between two bars, of the width of a bar's place
_FEWEST_DOTS, _MOST_DOTS = 8, 60  # of a bar's height: with fewer, parts could not be told apart
_BEYOND = 1.005  # shares are estimated one by one; a sum beyond this is spoken of
_PALE = "#d9d9d9"

_TALLEST, _WIDEST, _NARROWEST = 1.5, 6.0, 0.4  # inches, of a panel of distances
_COMFORTABLE, _LETTERED = 1.25, 0.75  # inches: panels with room for every tick, and for some
_TICKS = tuple(range(-FARTHEST, FARTHEST + 1, 4))


@dataclass(frozen=True)
class Family:
    """Parts that are drawn as one."""

    color: str
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """As screens and tables have it."""
        return joint_name(self.parts)


_FARTHER = range(2, FARTHEST + 1)
FAMILIES = (
    Family(on_white(COLORS["previous-word"], 0.45), tuple(f"offset-{distance}" for distance in _FARTHER)),
    Family(COLORS["previous-word"], ("offset-1",)),
    Family(ITSELF_COLOR, ("offset+0",)),
    Family(COLORS["next-word"], ("offset+1",)),
    Family(on_white(COLORS["next-word"], 0.45), tuple(f"offset+{distance}" for distance in _FARTHER)),
    Family(COLORS["identical"], ("identical",)),
    Family(COLORS["cross-sentence"], ("cross-sentence",)),
    Family(PREDICTIVE_SHADE, ("predictive",)),
    Family(PUNCTUATION_COLOR, ("punctuation",)),
    Family(COLORS["bag-of-words"], ("own-sentence",)),
    Family(on_white(COLORS["bag-of-words"], 0.3), ("other-sentence",)),
    Family(on_white(COLORS["delimiter"], 0.45), ("start", "middle", "end")),
    Family(SAME_KEYS_COLOR, ("same-keys",)),
)
"""From the bottom of a bar to its top; a user's own parts come before the punctuation."""


def families_of(profile: Profile) -> tuple[Family, ...]:
    """Those that a profile has parts of."""
    ours = {part for family in FAMILIES for part in family.parts}
    others = tuple(part for part in profile.parts if part not in ours)
    own = Family(OTHER_COLOR, others)
    place = [family.name for family in FAMILIES].index("punctuation")
    every = (*FAMILIES[:place], own, *FAMILIES[place:])
    return tuple(family for family in every if set(family.parts) & set(profile.parts))


def profile_sheet(profile: Profile, width: float) -> Sheet:
    """Every head's shares as a bar, part upon part; what no part takes is left blank."""
    layers, heads = profile.grid.shape
    left, inner = ruler_width(layers), width - 2 * MARGIN
    across = min(LARGEST_CELL, (width - left - MARGIN) / heads)
    down = min(_TALLER * across, LONGEST / layers)
    check_heads_can_be_seen(min(across, down / _FEWEST_DOTS), profile.grid, width, "profile")
    grid = Box(max(left, (width - across * heads) / 2), MARGIN + 2 * LINE, across * heads, down * layers)
    families = families_of(profile)
    shares = _shares(profile, families)
    key = _key(families, shares, inner)
    lines = wrapped(_note(profile, shares), inner)
    below = grid.y + grid.height + 0.07
    under = below + height_of(key, inner, aligned=True) + 0.03
    sheet = Sheet(width, under + len(lines) * LINE + MARGIN)
    rulers(sheet, grid, profile.grid)
    _bars(sheet, grid, families, shares)
    draw_key(sheet, key, below, aligned=True)
    sheet.lines(lines, under, FAINT)
    return sheet


def _shares(profile: Profile, families: Sequence[Family]) -> FloatArray:
    """What the families take of each head's attention. Shape: [layer, head, family]."""
    share, place = np.nan_to_num(profile.fit.share), profile.parts.index
    parts = ([place(part) for part in family.parts if part in profile.parts] for family in families)
    return np.stack([share[..., chosen].sum(-1) for chosen in parts], -1)


def _key(families: Sequence[Family], shares: FloatArray, width: float) -> list[KeyEntry]:
    """The families that some head has, each with its mean share, and what is left."""
    means, room = shares.mean((0, 1)), max(width / 4, *(width_of(family.name) for family in FAMILIES))
    entries = [
        KeyEntry(f"{shortened(family.name, room)} ({mean:.2f})", family.color)
        for family, mean in zip(families, means, strict=True)
        if mean > 0
    ]
    left = np.maximum(1 - shares.sum(-1), 0).mean()
    return [*entries, KeyEntry(f"blank: none of these ({left:.2f})")]


def _note(profile: Profile, shares: FloatArray) -> str:
    whole = "what a head carries" if profile.signature.reading.carried else "a head's attention"
    note = f"A bar shows how {whole} divides into parts, from 0 to 1. In brackets: the mean share over all heads."
    return (
        f"{note} Where shares add to more than 1, they are drawn smaller." if shares.sum(-1).max() > _BEYOND else note
    )


def _bars(sheet: Sheet, grid: Box, families: Sequence[Family], shares: FloatArray) -> None:
    """Every head's bar; so many that a file of boxes would be too large become one image."""
    layers, heads, _ = shares.shape
    across, down = grid.width / heads, grid.height / layers
    tops = (shares / np.maximum(shares.sum(-1, keepdims=True), 1)).cumsum(-1)  # a sum of estimates may be above 1
    if shares.size > MOST_CELLS:
        sheet.image(grid, _image(families, tops, min(math.ceil(down * DPI), _MOST_DOTS)))
        return
    gap = _GAP * across
    for layer in range(layers):
        foot, height = grid.y + (layer + 1) * down - gap, down - 2 * gap
        for y in (foot, foot - height):
            sheet.line([grid.x, grid.x + grid.width], [y, y], _PALE, 0.4)
        for head in range(heads):
            x, bottom = grid.x + head * across + gap / 2, 0.0
            for family, top in zip(families, tops[layer, head], strict=True):
                if top > bottom:
                    place = Box(x, foot - top * height, across - gap, (top - bottom) * height)
                    sheet.box(place, family.color)
                bottom = top


def _image(families: Sequence[Family], tops: FloatArray, dots: int) -> FloatArray:
    """Bars of some dots each, the uppermost tenth left free. Shape: [layer, head, family] -> [row, head, 4]."""
    colors = np.array([*(to_rgba(family.color) for family in families), (1, 1, 1, 0)])
    free = max(1, dots // 10)
    heights = (dots - 0.5 - np.arange(dots)) / (dots - free)  # of the dots' middles; a bar's end is at 1
    which = np.stack([(tops <= height).sum(-1) for height in heights], 1)
    image: FloatArray = colors[which.reshape(len(tops) * dots, -1)]
    return image


def distance_sheet(profile: Profile, heads: Sequence[Head], width: float) -> Sheet:
    """Some heads' shares by distance, from words before to words after, each with its 95 % interval; on one scale.

    Raises: SelectionError if these are too many heads for the width.
    """
    curves = [_Curve.of(profile, head) for head in heads]
    low, high = _span(curves)
    scale = {value: f"{value:g}" for value in (0.0, high / 2, high)}
    left = MARGIN + LINE + max(map(width_of, scale.values())) + 0.06
    layout = best_layout(_layouts(len(heads), left, width), len(heads), width, profile.grid.shape[1])
    lines = wrapped(_distance_note(profile, layout), width - 2 * MARGIN)
    words = LINE if layout.labels.step else 0.0  # `before` and `after`, beneath the lowest panels
    below = MARGIN + layout.height + words + 0.04
    sheet = Sheet(width, below + len(lines) * LINE + MARGIN)
    title = "head " if max(width_of(f"head {head.name}") for head in heads) <= layout.panel[0] else ""
    for i, (curve, box) in enumerate(zip(curves, layout.places, strict=True)):
        _panel(sheet, box, layout.labels, (low, high), scale if i % layout.columns == 0 else {})
        if i + layout.columns >= layout.count:
            _words(sheet, box, layout.labels)
        _curve(sheet, box, curve, (low, high))
        sheet.text(box.x, box.y - 0.65 * LINE, title + curve.head.name)
    sheet.lines(lines, below, FAINT)
    return sheet


@dataclass(frozen=True)
class _Curve:
    """A head's shares by distance."""

    head: Head
    share: FloatArray
    """NaN where no word has another at the distance. Shape: [distance]."""
    interval: FloatArray
    """Half the width of the 95 % interval; 0 where there is none."""

    @classmethod
    def of(cls, profile: Profile, head: Head) -> _Curve:
        places = [profile.parts.index(f"offset{offset:+}") for offset in OFFSETS]
        interval: FloatArray = np.nan_to_num(profile.interval[head.place][places])
        return cls(head, profile.fit.share[head.place][places], interval)


def _span(curves: Sequence[_Curve]) -> tuple[float, float]:
    """The range of the scale: zero, and every share with its interval; its top is round.

    >>> _span([_Curve(Head(0, 0), np.array([0.1, 0.42]), np.array([0.11, 0.01]))])
    (-0.01, 0.5)
    """
    ends = [curve.share + sign * curve.interval for curve in curves for sign in (-1, 1)]
    values = [float(value) for end in ends for value in end if not np.isnan(value)]
    low, high = min([0.0, *values]), max([0.01, *values])
    step = 10.0 ** math.floor(math.log10(high))
    top = next(digit * step for digit in (1, 2, 3, 4, 5, 6, 8, 10) if digit * step >= high * (1 - 1e-9))
    return round(low, 12), round(top, 12)


def _layouts(count: int, left: float, width: float) -> Iterator[Layout]:
    """Panels for curves, ever more of them side by side."""
    texts = tuple(f"{tick:+}".replace("-", "−") if tick else "0" for tick in _TICKS)
    for columns in range(1, count + 1):
        across = min(_WIDEST, (width - left - MARGIN - GAP * (columns - 1)) / columns)
        if across < _NARROWEST:
            return
        step = 1 if across >= _COMFORTABLE else 2 if across >= _LETTERED else 0
        labels = AxisLabels(texts, (False,) * len(texts), step, 0, "")
        down = min(_TALLEST, max(0.55 * across, 0.4))
        yield Layout(count, columns, left, (across, down), LINE if step else 0.05, labels)


def _panel(sheet: Sheet, box: Box, labels: AxisLabels, span: tuple[float, float], scale: dict[float, str]) -> None:
    """A panel without its curve: the lines of zero and of the word itself, and at the outermost ones the scale."""
    zero = _y(box, 0, span)
    middle = _x(box, 0)
    sheet.line([middle, middle], [box.y, box.y + box.height], _PALE, 0.5)
    sheet.line([box.x, box.x + box.width], [box.y, box.y], _PALE, 0.4)
    sheet.line([box.x, box.x + box.width], [zero, zero], FAINT, 0.5)
    shown = [value for value in scale if box.height > 3 * LINE or value in (0.0, span[1])]
    for value in shown:
        sheet.text(box.x - 0.04, _y(box, value, span), scale[value], align="right")
    if scale:
        sheet.text(MARGIN + LINE / 2, box.y + box.height / 2, "share", align="center", upward=True)
    for i in labels.shown:
        room = width_of(labels.texts[i]) / 2
        x = min(max(_x(box, _TICKS[i]), box.x + room), box.x + box.width - room)
        sheet.text(x, box.y + box.height + 0.6 * LINE, labels.texts[i], align="center")


def _words(sheet: Sheet, box: Box, labels: AxisLabels) -> None:
    """What the distances are of: `words before` at the left, `words after` at the right."""
    if not labels.step:
        return
    what = "words " if width_of("words before") < 0.45 * box.width else ""
    for place, side in ((0.25, "before"), (0.75, "after")):
        sheet.text(box.x + place * box.width, box.y + box.height + 1.6 * LINE, what + side, align="center")


def _curve(sheet: Sheet, box: Box, curve: _Curve, span: tuple[float, float]) -> None:
    """Points with their intervals, and a line through them, broken where there is none."""
    x = [_x(box, offset) for offset in OFFSETS]
    y = [_y(box, share, span) for share in curve.share]
    sheet.line(x, y, FAINT, 0.6)
    colors = [COLORS["previous-word"]] * FARTHEST + [ITSELF_COLOR] + [COLORS["next-word"]] * FARTHEST
    for at, height, share, interval, color in zip(x, y, curve.share, curve.interval, colors, strict=True):
        if np.isnan(share):
            continue
        if interval > 0:
            sheet.line([at, at], [_y(box, share + sign * interval, span) for sign in (-1, 1)], color, 0.8)
        sheet.line([at], [height], color, 0, marker="o")


def _distance_note(profile: Profile, layout: Layout) -> str:
    carried = "what a head carries to a word comes from"
    whole = carried if profile.signature.reading.carried else "a word's attention goes to"
    known = "" if np.isnan(profile.interval).all() else ", with 95 % intervals"
    note = f"Share: how much of {whole} the word at this distance in its own sentence{known}."
    if not layout.labels.step:
        note += f" From left to right: {FARTHEST} words before to {FARTHEST} after, with the word in the middle."
    return note


def _x(box: Box, offset: float) -> float:
    return box.x + box.width * (offset + FARTHEST + 0.5) / len(OFFSETS)


def _y(box: Box, share: float, span: tuple[float, float]) -> float:
    low, high = span
    return box.y + box.height * (high - share) / (high - low)
