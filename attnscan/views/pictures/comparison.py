"""Pictures with a dot for each head: its scores in two models, pattern by pattern; a map where alike ones are near."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison
from attnscan.results.similarity import Similarity
from attnscan.views.palette import letter, paper_color
from attnscan.views.pictures.lettering import shortened, shrunk, width_of, wrapped
from attnscan.views.pictures.sheet import FAINT, LINE, MARGIN, Box, Sheet

_COLUMNS = 2
_GAP = 0.15
_DOT = 0.035
_FIRM, _PALE = 0.85, 0.25  # opacity of a difference that survives, and of one that does not
_SQUARE = 0.05
_NAME = 4.0  # points
_INSET = 0.15


def comparison_sheet(comparison: Comparison, patterns: Sequence[str], width: float) -> Sheet:
    """A square panel for each pattern, A across and B upwards; a head that did not change lies on the diagonal.

    Pale heads differ by no more than chance may make one of so many differ.
    """
    left = MARGIN + LINE + width_of("0.5") + 0.05
    side = (width - left - MARGIN - _GAP * (_COLUMNS - 1)) / _COLUMNS
    pitch = side + 2.6 * LINE
    rows = -(-len(patterns) // _COLUMNS)
    inner = width - 2 * MARGIN
    titles = [signature.title for signature in comparison.signatures]
    if titles[0] == titles[1]:  # two checkpoints of a run may differ by their directories alone
        titles = [signature.model for signature in comparison.signatures]
    directions = zip(("A across", "B upwards"), titles, strict=True)
    axes = [shortened(f"{direction}: {title}", inner) for direction, title in directions]
    pale = wrapped(
        f"pale: the difference does not survive a false discovery rate of {100 * FALSE_DISCOVERIES:g} %", inner
    )
    sheet = Sheet(width, MARGIN + rows * pitch + (len(axes) + len(pale) + 1.2) * LINE)
    for i, pattern in enumerate(patterns):
        row, column = divmod(i, _COLUMNS)
        box = Box(left + column * (side + _GAP), MARGIN + 1.3 * LINE + row * pitch, side, side)
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
        sheet.text(x + _SQUARE, y, similarity.heads[number].name, size=_NAME, color=FAINT)
    sheet.lines(lines, box.y + size + 0.3 * LINE)
    y = box.y + size + (len(lines) + 0.8) * LINE
    for label in labels:
        text = f"{letter(label)} {label} ({int((similarity.label == label).sum())})"
        sheet.entry(MARGIN, y, text, paper_color(label), gap=0.05)
        y += LINE
    return sheet
