"""The pictures of chosen heads' weights: as heat maps, and as lines from token to token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import Attention
from attnscan.results.grid import Head
from attnscan.views.palette import INK
from attnscan.views.pictures.lettering import shortened, width_of, wrapped
from attnscan.views.pictures.panels import GAP, AxisLabels, Layout, best_layout
from attnscan.views.pictures.sheet import FAINT, LINE, LONGEST, MARGIN, Box, Sheet

_LONGEST_LABEL = 0.75  # inches
_LARGEST_CELL = 0.22
_SMALLEST_PANEL = 0.32  # room for the name of a head
_LEAST_LINE = 0.01  # weights below are not drawn as lines
_MOST_LINES = 2000  # of one head
_BETWEEN = 0.7  # inches, at least, for the lines between two columns of tokens
_WIDEST_LINES = 3.3


def heads_sheet(attention: Attention, heads: Sequence[Head], width: float, vector: bool) -> Sheet:
    """Each head's weights as a heat map, queries downwards, keys across, all on one scale.

    Raises: SelectionError if these are too many heads for the width.
    """
    tokens = _Tokens.of(attention, _LONGEST_LABEL)
    layout = best_layout(_squares(tokens, len(heads), width), len(heads), width, attention.grid.shape[1])
    top = _round_up(max(float(tokens.weights(attention, head).max()) for head in heads))
    lines = wrapped(layout.labels.note, width - 2 * MARGIN) if layout.labels.note else []
    below = MARGIN + layout.height + LINE * bool(layout.labels.step)
    cells = len(heads) * len(tokens.names) ** 2
    sheet = Sheet(width, below + LINE * (1.1 + len(lines)) + MARGIN, cells=cells, vector=vector)
    for i, (head, box) in enumerate(zip(heads, layout.places, strict=True)):
        sheet.text(box.x, box.y - 0.65 * LINE, _title(head, box.width))
        sheet.heat(box, tokens.weights(attention, head), top)
        for cut in tokens.cuts:
            at = cut / len(tokens.names)
            sheet.line([box.x, box.x + box.width], [box.y + at * box.height] * 2)
            sheet.line([box.x + at * box.width] * 2, [box.y, box.y + box.height])
        sheet.frame(box)
        _beside(sheet, box, layout.labels, len(tokens.names), rows=i % layout.columns == 0)
    if layout.labels.step:
        _axes(sheet, layout)
    sheet.scale(MARGIN, below + LINE / 2, top, "weight")
    sheet.lines(lines, below + 1.1 * LINE, FAINT)
    return sheet


def lines_sheet(attention: Attention, heads: Sequence[Head], width: float) -> Sheet:
    """Each head's weights as lines from every query at the left to the keys that it looks at, at the right.

    Raises: SelectionError if these are too many heads for the width.
    """
    tokens = _Tokens.of(attention, min(_LONGEST_LABEL, (width - _BETWEEN - 0.3) / 2))
    layout = best_layout(_columns(tokens, len(heads), width), len(heads), width, attention.grid.shape[1])
    top = _round_up(max(float(tokens.weights(attention, head).max()) for head in heads))
    drawn, cut = [], False
    for head in heads:
        weights = tokens.weights(attention, head)
        order = np.argsort(weights, axis=None, kind="stable")[-_MOST_LINES:]
        drawn.append([divmod(int(flat), len(weights)) for flat in order if weights.flat[flat] >= _LEAST_LINE])
        cut |= int((weights >= _LEAST_LINE).sum()) > _MOST_LINES
    most = f" and beyond the {_MOST_LINES} strongest of a head" if cut else ""
    lines = wrapped(f"Weights below {_LEAST_LINE}{most} are not drawn. {layout.labels.note}", width - 2 * MARGIN)
    below = MARGIN + layout.height
    sheet = Sheet(width, below + LINE * (1.1 + len(lines)) + MARGIN)
    for i, (head, box, places) in enumerate(zip(heads, layout.places, drawn, strict=True)):
        _lines(sheet, box, layout.labels, tokens.weights(attention, head), places, top, titled=i < layout.columns)
        sheet.text(box.x + box.width / 2, box.y - 0.65 * LINE, head.name, align="center")
    _lines_key(sheet, below + LINE / 2, top)
    sheet.lines(lines, below + 1.1 * LINE, FAINT)
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
    def of(cls, attention: Attention, longest: float) -> _Tokens:
        kept = attention.passage
        names = [shortened(attention.tokens[i], longest) for i in kept]
        segments = [attention.segments[i] for i in kept]
        cuts = [i for i in range(1, len(kept)) if segments[i] != segments[i - 1]]
        return cls(kept, names, [attention.sentence[i] == -1 for i in kept], cuts)

    def weights(self, attention: Attention, head: Head) -> NDArray[np.float32]:
        """A head's. Shape: [query, key]."""
        return attention.rows_of(head, self.kept)[:, self.kept]


def _squares(tokens: _Tokens, count: int, width: float) -> Iterator[Layout]:
    """Square panels for heat maps, ever more of them side by side."""
    length, longest = len(tokens.names), max(map(width_of, tokens.names))
    for columns in range(1, count + 1):

        def side(room: float, columns: int = columns) -> float:
            left = MARGIN + LINE + room + 0.04
            return min(_LARGEST_CELL * length, (width - left - MARGIN - GAP * (columns - 1)) / columns)

        if side(0) < _SMALLEST_PANEL:
            return
        labels = AxisLabels.of(tokens.names, tokens.special, max(side(longest), 0.01) / length)
        below = labels.room + 0.06 if labels.step else 0.05
        left = MARGIN + LINE + labels.room + 0.04 if labels.step else MARGIN
        yield Layout(count, columns, left, (side(labels.room), side(labels.room)), below, labels)


def _columns(tokens: _Tokens, count: int, width: float) -> Iterator[Layout]:
    """Panels for lines, two columns of tokens each, ever more of them side by side."""
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        panel = min(_WIDEST_LINES, (width - 2 * MARGIN - GAP * (columns - 1)) / columns)
        pitch = min(LINE, ((LONGEST - 0.1) / rows - 1.5 * LINE) / len(tokens.names))
        if pitch <= 0:
            continue
        labels = AxisLabels.of(tokens.names, tokens.special, pitch)
        if panel < 2 * labels.room + _BETWEEN:
            return
        yield Layout(count, columns, MARGIN, (panel, pitch * len(tokens.names)), 0, labels)


def _beside(sheet: Sheet, box: Box, labels: AxisLabels, count: int, *, rows: bool) -> None:
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


def _axes(sheet: Sheet, layout: Layout) -> None:
    """What rows and columns of heat maps are, once for all of them."""
    first, last = layout.places[0], layout.places[-1]
    x = layout.left - layout.labels.room - 0.04 - LINE / 2
    sheet.text(x, (first.y + last.y + last.height) / 2, "query", align="center", color=FAINT, upward=True)
    right = max(box.x + box.width for box in layout.places)
    y = MARGIN + layout.height + LINE / 2
    sheet.text((first.x + right) / 2, y, "key", align="center", color=FAINT)


def _lines(
    sheet: Sheet, box: Box, labels: AxisLabels, weights: NDArray[np.float32], places: list[tuple[int, int]], top: float,
    *, titled: bool,
) -> None:  # fmt: skip
    """The two columns of tokens of a head, and the lines between them; `titled` says what the columns are."""
    pitch = box.height / len(weights)
    room = max(labels.room, width_of("query")) + 0.05
    left, right = box.x + room, box.x + box.width - room
    ends = [[(left, box.y + (q + 0.5) * pitch), (right, box.y + (k + 0.5) * pitch)] for q, k in places]
    if ends:
        sheet.strokes(np.array(ends), np.array([float(weights[place]) / top for place in places]))
    for i in labels.shown:
        y, color = box.y + (i + 0.5) * pitch, FAINT if labels.faint[i] else INK
        sheet.text(left - 0.03, y, labels.texts[i], align="right", color=color)
        sheet.text(right + 0.03, y, labels.texts[i], color=color)
    if titled:
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
    long = f"head {head.name}"
    return long if width_of(long) <= width else head.name


def _round_up(value: float) -> float:
    """The top of a scale: the next twentieth, or the value itself where it is one but for rounding; never less.

    >>> _round_up(0.71), _round_up(1.0), _round_up(0.0)
    (0.75, 1.0, 0.05)
    >>> fifth = float(np.float32(0.2))  # 0.2000000030
    >>> _round_up(fifth) == fifth
    True
    """
    return max(math.ceil(round(value * 20, 6)) / 20, value, 0.05)
