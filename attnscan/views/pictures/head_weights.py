"""The pictures of chosen heads' weights: as heat maps, and as lines from token to token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import PADDING, Attention
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.signature import Reading
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
_GOLD = "#d55e00"
Links = Sequence[tuple[int, int]]
"""Gold links of cross attention: a token of the target, and one of the source."""


def heads_sheet(
    attention: Attention, heads: Sequence[Head], width: float, vector: bool, reading: Reading, links: Links = ()
) -> Sheet:
    """Each head's weights as a heat map, queries downwards, keys across, all on one scale; gold links are outlined.

    Raises: SelectionError if these are too many heads for the width.
    """
    tokens = _Tokens.of(attention, _LONGEST_LABEL)
    layout = best_layout(_rectangles(tokens, len(heads), width), len(heads), width, attention.grid.shape[1])
    across = layout.across or layout.labels
    top = _round_up(max(float(tokens.weights(attention, head).max()) for head in heads))
    outlined = _cells(tokens, links)
    title = tokens.title(reading, "outlined" if outlined else "")
    notes = filter(None, dict.fromkeys((title, layout.labels.note, across.note)))
    lines = [line for note in notes for line in wrapped(note, width - 2 * MARGIN)]
    below = MARGIN + layout.height + LINE * bool(across.step)
    cells = len(heads) * len(tokens.rows.names) * len(tokens.keys.names)
    sheet = Sheet(width, below + LINE * (1.1 + len(lines)) + MARGIN, cells=cells, vector=vector)
    for i, (head, box) in enumerate(zip(heads, layout.places, strict=True)):
        sheet.text(box.x, box.y - 0.65 * LINE, _title(head, box.width))
        sheet.heat(box, tokens.weights(attention, head), top)
        for cut in tokens.rows.cuts:
            sheet.line([box.x, box.x + box.width], [box.y + cut / len(tokens.rows.names) * box.height] * 2)
        for cut in tokens.keys.cuts:
            sheet.line([box.x + cut / len(tokens.keys.names) * box.width] * 2, [box.y, box.y + box.height])
        side = box.width / len(tokens.keys.names)
        for row, key in outlined:
            sheet.frame(Box(box.x + key * side, box.y + row * side, side, side), _GOLD, 1)
        sheet.frame(box)
        _beside(sheet, box, layout.labels, len(tokens.rows.names), down=i % layout.columns == 0)
        _beside(sheet, box, across, len(tokens.keys.names), across=True)
    if layout.labels.step or across.step:
        _axes(sheet, layout, tokens)
    sheet.scale(MARGIN, below + LINE / 2, top, "weight")
    sheet.lines(lines, below + 1.1 * LINE, FAINT)
    return sheet


def lines_sheet(
    attention: Attention, heads: Sequence[Head], width: float, reading: Reading, links: Links = ()
) -> Sheet:
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
        drawn.append([divmod(int(flat), weights.shape[1]) for flat in order if weights.flat[flat] >= _LEAST_LINE])
        cut |= int((weights >= _LEAST_LINE).sum()) > _MOST_LINES
    most = f" and beyond the {_MOST_LINES} strongest of a head" if cut else ""
    linked = _cells(tokens, links)
    about = f"{tokens.title(reading, 'dotted' if linked else '')} Weights below {_LEAST_LINE}{most} are not drawn."
    lines = wrapped(f"{about} {layout.labels.note}".strip(), width - 2 * MARGIN)
    below = MARGIN + layout.height
    sheet = Sheet(width, below + LINE * (1.1 + len(lines)) + MARGIN)
    for i, (head, box, places) in enumerate(zip(heads, layout.places, drawn, strict=True)):
        _lines(sheet, box, layout, tokens, tokens.weights(attention, head), places, linked, top, i < layout.columns)
        sheet.text(box.x + box.width / 2, box.y - 0.65 * LINE, head.name, align="center")
    _lines_key(sheet, below + LINE / 2, top)
    sheet.lines(lines, below + 1.1 * LINE, FAINT)
    return sheet


@dataclass(frozen=True)
class _Axis:
    """The tokens that are drawn as rows, or as columns."""

    kept: list[int]
    names: list[str]
    special: list[bool]
    cuts: list[int]
    """Where sentence B begins."""

    @classmethod
    def of(cls, attention: Attention, kept: list[int], longest: float) -> _Axis:
        segments = [attention.segments[i] for i in kept]
        cuts = [i for i in range(1, len(kept)) if segments[i] != segments[i - 1]]
        names = [shortened(attention.tokens[i], longest) for i in kept]
        return cls(kept, names, [attention.sentence[i] == -1 for i in kept], cuts)

    def labels(self, pitch: float) -> AxisLabels:
        return AxisLabels.of(self.names, self.special, pitch)

    @property
    def longest(self) -> float:
        return max(map(width_of, self.names))


@dataclass(frozen=True)
class _Tokens:
    """What is drawn of an input: its tokens but for padding; in cross attention, those of two texts."""

    rows: _Axis
    keys: _Axis
    kind: AttentionKind

    @classmethod
    def of(cls, attention: Attention, longest: float) -> _Tokens:
        passage, source = attention.passage, attention.source
        keys = [i for i in range(source) if attention.sentence[i] != PADDING] if source else passage
        rows = _Axis.of(attention, [i for i in passage if i >= source], longest)
        return cls(rows, _Axis.of(attention, keys, longest) if source else rows, attention.kind)

    @property
    def sides(self) -> tuple[str, str]:
        """What rows and columns are called."""
        return ("target", "source") if self.kind is AttentionKind.CROSS else ("query", "key")

    def title(self, reading: Reading, gold: str) -> str:
        """Of an encoder-decoder, which attention is drawn and by which reading; else nothing."""
        if self.kind is AttentionKind.ONLY:
            return ""
        links = f" Gold links are {gold}." if gold else ""
        return f"{self.kind.word.capitalize()} attention, {reading}.{links}"

    def weights(self, attention: Attention, head: Head) -> NDArray[np.float32]:
        """A head's. Shape: [query, key]."""
        return attention.rows_of(head, self.rows.kept)[:, self.keys.kept]


def _cells(tokens: _Tokens, links: Links) -> list[tuple[int, int]]:
    """The rows and columns of links between tokens."""
    return [(tokens.rows.kept.index(row), tokens.keys.kept.index(key)) for row, key in links]


def _rectangles(tokens: _Tokens, count: int, width: float) -> Iterator[Layout]:
    """Panels of square cells for heat maps, ever more of them side by side."""
    rows, keys = tokens.rows, tokens.keys
    height = len(rows.names) / len(keys.names)
    for columns in range(1, count + 1):

        def side(room: float, columns: int = columns) -> float:
            left = MARGIN + LINE + room + 0.04
            widest = (width - left - MARGIN - GAP * (columns - 1)) / columns
            return min(_LARGEST_CELL * len(keys.names), widest, 0.7 * LONGEST / height)

        if side(0) < min(_SMALLEST_PANEL, _LARGEST_CELL * len(keys.names)):
            return
        pitch = max(side(rows.longest), 0.01) / len(keys.names)
        labels, across = rows.labels(pitch), keys.labels(pitch)
        below = across.room + 0.06 if across.step else 0.05
        left = MARGIN + LINE + labels.room + 0.04 if labels.step else MARGIN
        panel = side(labels.room), side(labels.room) * height
        yield Layout(count, columns, left, panel, below, labels, across)


def _columns(tokens: _Tokens, count: int, width: float) -> Iterator[Layout]:
    """Panels for lines, two columns of tokens each, ever more of them side by side."""
    longer = max(len(tokens.rows.names), len(tokens.keys.names))
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        panel = min(_WIDEST_LINES, (width - 2 * MARGIN - GAP * (columns - 1)) / columns)
        pitch = min(LINE, ((LONGEST - 0.1) / rows - 1.5 * LINE) / longer)
        if pitch <= 0:
            continue
        labels, across = tokens.rows.labels(pitch), tokens.keys.labels(pitch)
        if panel < labels.room + across.room + _BETWEEN:
            return
        yield Layout(count, columns, MARGIN, (panel, pitch * longer), 0, labels, across)


def _beside(
    sheet: Sheet, box: Box, labels: AxisLabels, count: int, *, down: bool = False, across: bool = False
) -> None:
    """Queries at the left of a heat map, if they go `down` it, or keys beneath it."""
    for i in labels.shown:
        color = FAINT if labels.faint[i] else INK
        if down:
            sheet.text(
                box.x - 0.04, box.y + (i + 0.5) * box.height / count, labels.texts[i], align="right", color=color
            )
        if across:
            at = box.x + (i + 0.5) * box.width / count, box.y + box.height + 0.04
            sheet.text(*at, labels.texts[i], align="right", color=color, upward=True)


def _axes(sheet: Sheet, layout: Layout, tokens: _Tokens) -> None:
    """What rows and columns of heat maps are, once for all of them."""
    first, last = layout.places[0], layout.places[-1]
    x = layout.left - layout.labels.room - 0.04 - LINE / 2
    rows, keys = tokens.sides
    if layout.labels.step:
        sheet.text(x, (first.y + last.y + last.height) / 2, rows, align="center", color=FAINT, upward=True)
    right = max(box.x + box.width for box in layout.places)
    y = MARGIN + layout.height + LINE / 2
    if layout.across is not None and layout.across.step:
        sheet.text((first.x + right) / 2, y, keys, align="center", color=FAINT)


def _lines(
    sheet: Sheet, box: Box, layout: Layout, tokens: _Tokens, weights: NDArray[np.float32],
    places: list[tuple[int, int]], linked: list[tuple[int, int]], top: float, titled: bool,
) -> None:  # fmt: skip
    """The two columns of tokens of a head, and the lines between them; `titled` says what the columns are."""
    labels, across = layout.labels, layout.across or layout.labels
    pitch = box.height / max(weights.shape)
    left = box.x + max(labels.room, width_of(tokens.sides[0])) + 0.05
    right = box.x + box.width - max(across.room, width_of(tokens.sides[1])) - 0.05

    def ends(q: int, k: int) -> list[tuple[float, float]]:
        return [(left, box.y + (q + 0.5) * pitch), (right, box.y + (k + 0.5) * pitch)]

    if places:
        lines = np.array([ends(*place) for place in places])
        sheet.strokes(lines, np.array([float(weights[place]) / top for place in places]))
    for place in linked:
        (from_x, from_y), (to_x, to_y) = ends(*place)
        sheet.line([from_x, to_x], [from_y, to_y], _GOLD, 1, dots=(1, 2))
    for i in labels.shown:
        color = FAINT if labels.faint[i] else INK
        sheet.text(left - 0.03, box.y + (i + 0.5) * pitch, labels.texts[i], align="right", color=color)
    for i in across.shown:
        sheet.text(right + 0.03, box.y + (i + 0.5) * pitch, across.texts[i], color=FAINT if across.faint[i] else INK)
    if titled:
        sheet.text(left - 0.03, box.y - 0.65 * LINE, tokens.sides[0], align="right", color=FAINT)
        sheet.text(right + 0.03, box.y - 0.65 * LINE, tokens.sides[1], color=FAINT)


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
