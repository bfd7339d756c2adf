"""The picture of which heads are alike: a map where near ones attend alike."""

from __future__ import annotations

import numpy as np

from attnscan.results.similarity import Similarity
from attnscan.views.palette import letter, paper_color
from attnscan.views.pictures.lettering import wrapped
from attnscan.views.pictures.sheet import FAINT, LINE, MARGIN, Box, Sheet

_DOT = 0.05
_NAME = 4.0  # points
_INSET = 0.15


def similarity_sheet(similarity: Similarity, width: float) -> Sheet:
    """Each head at its place, in its label's colour, with its name."""
    size = width - 2 * MARGIN
    note = f"{similarity.map_share:.0%} of all squared distances between heads show here; near ones attend alike."
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
        sheet.box(Box(x - _DOT / 2, y - _DOT / 2, _DOT, _DOT), paper_color(str(similarity.label[number])))
        sheet.text(x + _DOT, y, similarity.heads[number].name, size=_NAME, color=FAINT)
    y = box.y + size + 0.8 * LINE
    for line in lines:
        sheet.text(MARGIN, y, line)
        y += LINE
    for label in labels:
        text = f"{letter(label)} {label} ({int((similarity.label == label).sum())})"
        sheet.entry(MARGIN, y, text, paper_color(label), gap=0.05)
        y += LINE
    return sheet
