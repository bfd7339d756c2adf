"""The pictures of chosen heads' weights: as heat maps, and as lines from token to token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscan.attention import Attention
from attnscan.errors import SelectionError
from attnscan.selection import Head, head_name
from attnscan.views.sheet import FAINT, INK, LINE, LONGEST, MARGIN, Box, Sheet, shortened, step_of, width_of, wrapped

_LONGEST_LABEL = 0.75  # inches
_NAMED = 0.9 * LINE  # what a token's name needs of its row
_LARGEST_CELL = 0.22
_SMALLEST_PANEL = 0.32  # room for the name of a head
_NUMBERED_PANEL = 0.8  # from this size on, what has no room for names has numbers
_GAP = 0.1
_LEAST_LINE = 0.01  # weights below are not drawn as lines
_MOST_LINES = 2000  # of one head
_NARROWEST_LINES, _WIDEST_LINES = 1.5, 3.3  # inches, of a panel of lines
_SHORTEST_LINES = 0.5


@dataclass(frozen=True)
class Labels:
    """What stands beside the rows and columns: names of tokens, or numbers, or nothing."""

    texts: tuple[str, ...]
    faint: tuple[bool, ...]
    step: int
    """Every how many rows there is one; 0 for none."""
    room: float
    """The width of the widest, in inches."""
    note: str

    @classmethod
    def of(cls, names: Sequence[str], special: Sequence[bool], pitch: float) -> Labels:
        """Labels for rows of a pitch: names where every fourth fits at least, else numbers."""
        step = math.ceil(_NAMED / pitch)
        if step <= 4:
            room = max(map(width_of, names))
            which = {1: "", 2: "every second", 3: "every third", 4: "every fourth"}[step]
            note = f"Of the {len(names)} tokens {which} is named." if which else ""
            return cls(tuple(names), tuple(special), step, room, note)
        if pitch * len(names) < _NUMBERED_PANEL:
            return cls((), (), 0, 0, f"{len(names)} tokens, queries downwards, keys across.")
        numbers = tuple(map(str, range(len(names))))
        note = f"{len(names)} tokens, too many to name: their positions."
        return cls(numbers, (False,) * len(names), step_of(pitch, 2 * _NAMED), width_of(numbers[-1]), note)

    @property
    def shown(self) -> range:
        """The rows that have one."""
        return range(0, len(self.texts), self.step) if self.step else range(0)


@dataclass(frozen=True)
class Layout:
    """How panels, all of a size, stand on a sheet: in rows of some columns, each with its head's name above."""

    columns: int
    rows: int
    left: float
    panel: tuple[float, float]
    below: float
    """What each panel needs beneath."""
    labels: Labels

    @property
    def height(self) -> float:
        """Of all panels."""
        return self.rows * (self.panel[1] + self.below + 1.3 * LINE)

    def places(self, count: int) -> list[Box]:
        """Where each panel stands."""
        across, down = self.panel[0] + _GAP, self.panel[1] + self.below + 1.3 * LINE
        places = (divmod(i, self.columns) for i in range(count))
        top = MARGIN + 1.2 * LINE
        return [Box(self.left + column * across, top + row * down, *self.panel) for row, column in places]


def heads_sheet(attention: Attention, heads: Sequence[Head], width: float, vector: bool) -> Sheet:
    """Each head's weights as a heat map, queries downwards, keys across, all on one scale.

    Raises: SelectionError if these are too many heads for the width.
    """
    tokens = _Tokens.of(attention)
    layout = _squares(tokens, len(heads), width)
    top = _round_up(max(float(tokens.weights(attention, head).max()) for head in heads))
    lines = wrapped(layout.labels.note, width - 2 * MARGIN) if layout.labels.note else []
    below = MARGIN + layout.height
    sheet = Sheet(width, below + LINE * (1.1 + len(lines)) + MARGIN)
    for i, (head, box) in enumerate(zip(heads, layout.places(len(heads)), strict=True)):
        sheet.text(box.x, box.y - 0.65 * LINE, _title(head, box.width))
        sheet.heat(box, tokens.weights(attention, head), top, vector)
        for cut in tokens.cuts:
            at = cut / len(tokens.names)
            sheet.line([box.x, box.x + box.width], [box.y + at * box.height] * 2)
            sheet.line([box.x + at * box.width] * 2, [box.y, box.y + box.height])
        sheet.frame(box)
        _beside(sheet, box, layout.labels, len(tokens.names), rows=i % layout.columns == 0)
    sheet.scale(MARGIN, below + LINE / 2, top, "weight")
    for i, line in enumerate(lines):
        sheet.text(MARGIN, below + (1.6 + i) * LINE, line, color=FAINT)
    return sheet


def lines_sheet(attention: Attention, heads: Sequence[Head], width: float) -> Sheet:
    """Each head's weights as lines from every query at the left to the keys that it looks at, at the right.

    Raises: SelectionError if these are too many heads for the width.
    """
    tokens = _Tokens.of(attention)
    layout = _columns(tokens, len(heads), width)
    top = _round_up(max(float(tokens.weights(attention, head).max()) for head in heads))
    least, cut = _LEAST_LINE, False
    sheet_notes = [layout.labels.note] if layout.labels.note else []
    drawn = []
    for head in heads:
        weights = tokens.weights(attention, head)
        order = np.argsort(weights, axis=None)[-_MOST_LINES:]
        cut |= bool((weights >= least).sum() > _MOST_LINES)
        drawn.append([divmod(int(flat), len(weights)) for flat in order if weights.flat[flat] >= least])
    most = f" and beyond the {_MOST_LINES} strongest of a head" if cut else ""
    sheet_notes.insert(0, f"Weights below {least:g}{most} are not drawn.")
    lines = wrapped(" ".join(sheet_notes), width - 2 * MARGIN)
    below = MARGIN + layout.height
    sheet = Sheet(width, below + LINE * (1.1 + len(lines)) + MARGIN)
    for head, box, places in zip(heads, layout.places(len(heads)), drawn, strict=True):
        _lines(sheet, box, layout.labels, tokens.weights(attention, head), places, top)
        sheet.text(box.x + box.width / 2, box.y - 0.65 * LINE, head_name(head), align="center")
    _lines_key(sheet, below + LINE / 2, top)
    for i, line in enumerate(lines):
        sheet.text(MARGIN, below + (1.6 + i) * LINE, line, color=FAINT)
    return sheet


@dataclass(frozen=True)
class _Tokens:
    """What is drawn of an input: its tokens but for padding."""

    kept: list[int]
    names: list[str]
    special: list[bool]
    cuts: list[int]
    """Where sentence B begins."""

    @classmethod
    def of(cls, attention: Attention) -> _Tokens:
        kept = [i for i, sentence in enumerate(attention.sentence) if sentence != -2]
        names = [shortened(attention.tokens[i], _LONGEST_LABEL) for i in kept]
        segments = [attention.segments[i] for i in kept]
        cuts = [i for i in range(1, len(kept)) if segments[i] != segments[i - 1]]
        return cls(kept, names, [attention.sentence[i] == -1 for i in kept], cuts)

    def weights(self, attention: Attention, head: Head) -> NDArray[np.float32]:
        """A head's. Shape: [query, key]."""
        weights: NDArray[np.float32] = attention.weights[head][np.ix_(self.kept, self.kept)]
        return weights


def _squares(tokens: _Tokens, count: int, width: float) -> Layout:
    """Square panels for heat maps: as many side by side as leave room for every token's name, else as fit the page."""
    length = len(tokens.names)

    def layout(columns: int) -> Layout:
        def side(room: float) -> float:
            left = MARGIN + LINE + room + 0.04
            return min(_LARGEST_CELL * length, (width - left - MARGIN - _GAP * (columns - 1)) / columns)

        labels = Labels.of(tokens.names, tokens.special, max(side(max(map(width_of, tokens.names))), 0.01) / length)
        panel = side(labels.room)
        below = labels.room + LINE + 0.06 if labels.step else 0
        left = MARGIN + LINE + labels.room + 0.04 if labels.step else MARGIN
        return Layout(columns, -(-count // columns), left, (panel, panel), below, labels)

    return _best(layout, count, width, _SMALLEST_PANEL)


def _columns(tokens: _Tokens, count: int, width: float) -> Layout:
    """Panels for lines, two columns of tokens each."""

    def layout(columns: int) -> Layout:
        rows = -(-count // columns)
        panel = min(_WIDEST_LINES, (width - 2 * MARGIN - _GAP * (columns - 1)) / columns)
        pitch = min(LINE, ((LONGEST - 0.1) / rows - 1.5 * LINE) / len(tokens.names))
        labels = Labels.of(tokens.names, tokens.special, max(pitch, 1e-3))
        return Layout(columns, rows, MARGIN, (panel, pitch * len(tokens.names)), 0, labels)

    return _best(layout, count, width, _NARROWEST_LINES)


def _best(layout: Callable[[int], Layout], count: int, width: float, narrowest: float) -> Layout:
    """The most columns with every token named, else the fewest that the page is long enough for."""
    layouts = [layout(columns) for columns in range(1, count + 1)]
    fit = [each for each in layouts if each.panel[0] >= narrowest and 0 < each.height <= LONGEST]
    if not fit:
        raise SelectionError(
            f"{count} heads have no room in a picture {width:g} inches wide",
            "name fewer of them, or give a larger --width",
        )
    named = [each for each in fit if each.labels.step == 1]
    return named[-1] if named else fit[0]


def _beside(sheet: Sheet, box: Box, labels: Labels, count: int, *, rows: bool) -> None:
    """Queries at the left of a heat map, keys beneath it."""
    if not labels.step:
        return
    pitch = box.width / count
    for i in labels.shown:
        color = FAINT if labels.faint[i] else INK
        if rows:
            sheet.text(box.x - 0.04, box.y + (i + 0.5) * pitch, labels.texts[i], align="right", color=color)
        at = box.x + (i + 0.5) * pitch, box.y + box.height + 0.04
        sheet.text(*at, labels.texts[i], align="right", color=color, upward=True)
    if rows:
        at = box.x - labels.room - 0.04 - LINE / 2, box.y + box.height / 2
        sheet.text(*at, "query", align="center", color=FAINT, upward=True)
    at = box.x + box.width / 2, box.y + box.height + labels.room + 0.04 + LINE / 2
    sheet.text(*at, "key", align="center", color=FAINT)


def _lines(
    sheet: Sheet, box: Box, labels: Labels, weights: NDArray[np.float32], places: list[tuple[int, int]], top: float
) -> None:
    """The two columns of tokens of a head, and the lines between them."""
    pitch = box.height / len(weights)
    left, right = box.x + labels.room + 0.05, box.x + box.width - labels.room - 0.05
    ends = [[(left, box.y + (q + 0.5) * pitch), (right, box.y + (k + 0.5) * pitch)] for q, k in places]
    if ends:
        sheet.strokes(np.array(ends), np.array([float(weights[place]) / top for place in places]))
    for i in labels.shown:
        y, color = box.y + (i + 0.5) * pitch, FAINT if labels.faint[i] else INK
        sheet.text(left - 0.03, y, labels.texts[i], align="right", color=color)
        sheet.text(right + 0.03, y, labels.texts[i], color=color)
    sheet.text(left - 0.03, box.y - 0.65 * LINE, "query", align="right", color=FAINT)
    sheet.text(right + 0.03, box.y - 0.65 * LINE, "key", color=FAINT)


def _lines_key(sheet: Sheet, y: float, top: float) -> None:
    """How dark a line is by its weight."""
    sheet.text(MARGIN, y, "weight")
    x = MARGIN + width_of("weight ") + 0.04
    for part in (0.25, 0.5, 1):
        sheet.strokes(np.array([[(x, y), (x + 0.2, y)]]), np.array([part]))
        sheet.text(x + 0.24, y, f"{part * top:.2g}")
        x += 0.36 + width_of(f"{part * top:.2g}")


def _title(head: Head, width: float) -> str:
    """A head's name, and before it what it is if there is room."""
    long = f"head {head_name(head)}"
    return long if width_of(long) <= width else head_name(head)


def _round_up(value: float) -> float:
    """The top of a scale: the next twentieth.

    >>> _round_up(0.71), _round_up(1.0), _round_up(0.0)
    (0.75, 1.0, 0.05)
    """
    return max(1, math.ceil(round(value * 20, 6))) / 20
