"""The picture of the map: what each head does, in the layer x head grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.colors import to_rgba

from attnscan.errors import SelectionError
from attnscan.results.behaviour import Labels
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.views.behaviour import kinds_of, why_unsure
from attnscan.views.palette import RESTING_OPACITY, letter, on_white, paper_color, readable_on, words
from attnscan.views.pictures.lettering import POINT, SIZE, shortened, step_of, width_of, wrapped
from attnscan.views.pictures.sheet import (
    DOT,
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

LARGEST_CELL = 0.3
HeadCell = tuple[str, float, str]
"""A head's colour and its opacity, and the mark in it."""

_SMALLEST_LETTER = 4.0  # in points
_GAP = 0.01  # around each cell, or a fifth of a cell where that is less


def map_sheet(labels: Labels, width: float, command: str = "classify") -> Sheet:
    """What each head does: a letter in its colour; pale where the head rests on special tokens.

    A label that is not sure has a question mark. `command` is the one that lists the same heads.
    """
    layers, heads = labels.grid.shape
    left, inner = ruler_width(layers), width - 2 * MARGIN
    side = min(LARGEST_CELL, (width - left - MARGIN) / heads, LONGEST / layers)
    check_heads_can_be_seen(side, labels.grid, width, command)
    grid = Box(max(left, (width - side * heads) / 2), MARGIN + 2 * LINE, side * heads, side * layers)
    lettered = letter_size(side) is not None
    title = wrapped(f"Map{of_kind(labels.grid)}: what each head does, {labels.reading}.", inner)
    notes = [] if lettered else wrapped("no room for letters: --width gives more", inner)
    notes += wrapped(f"?: {why_unsure(labels)}.", inner) if lettered and labels.unsure.any() else []
    names = _key(labels, inner)
    below = grid.y + grid.height + 0.07
    key = below + LINE * len(title) + 0.03
    noted = key + height_of(names, inner) + 0.03
    sheet = Sheet(width, noted + LINE * len(notes) + MARGIN)
    rulers(sheet, grid, labels.grid)
    draw_heads(sheet, grid, labels.grid, lambda head: _cell(labels, head))
    sheet.lines(title, below)
    draw_key(sheet, names, key)
    sheet.lines(notes, noted)
    return sheet


def of_kind(grid: Grid) -> str:
    """Of which attention of an encoder-decoder heads are; nothing of other models."""
    kind = grid[0].kind
    return "" if kind is AttentionKind.ONLY else f" of {kind.word} attention"


def ruler_width(layers: int) -> float:
    """The room that a grid's layer numbers take at its left."""
    return MARGIN + LINE + width_of(str(layers - 1)) + 0.05


def rulers(
    sheet: Sheet, box: Box, grid: Grid, *, down: bool = True, across: bool = True, beneath: bool = False
) -> None:
    """The numbers of layers at a box's left and of heads above or beneath it, as many as there is room for."""
    layers, heads = grid.shape
    if down:
        side = box.height / layers
        for layer in range(0, layers, step_of(side, 0.9 * LINE)):
            sheet.text(box.x - 0.05, box.y + (layer + 0.5) * side, str(grid.numbers(layers)[layer]), align="right")
        middle = box.x - ruler_width(layers) + MARGIN + LINE / 2, box.y + box.height / 2
        sheet.text(*middle, "layer", align="center", upward=True)
    if across:
        side = box.width / heads
        near, far = (box.height + 0.55 * LINE, box.height + 1.5 * LINE) if beneath else (-0.5 * LINE, -1.5 * LINE)
        for head in range(0, heads, step_of(side, width_of(f"{heads - 1} "))):
            sheet.text(box.x + (head + 0.5) * side, box.y + near, str(head), align="center")
        sheet.text(box.x + box.width / 2, box.y + far, "head", align="center")


def check_heads_can_be_seen(side: float, grid: Grid, width: float, command: str = "classify") -> None:
    """Raises: SelectionError if what stands for a head, of so many inches, is less than a dot of a printed picture.

    `command` is the one that lists the same heads.
    """
    if side < DOT:
        layers, heads = grid.shape
        raise SelectionError(
            f"{layers} layers of {heads} heads have no room in a picture {width:g} inches wide",
            f"give a larger --width, or list the heads: attnscan {command} --csv",
        )


def draw_heads(sheet: Sheet, box: Box, grid: Grid, cell_of: Callable[[Head], HeadCell]) -> None:
    """Every head's cell, with its mark where there is room; so many that they are mere dots become one image."""
    if len(grid) > MOST_CELLS:
        sheet.image(box, np.array([to_rgba(*cell_of(head)[:2]) for head in grid]).reshape(*grid.shape, 4))
        return
    side = box.width / grid.shape[1]
    gap, size = min(_GAP, side / 5), letter_size(side)
    for head in grid:
        color, seen, text = cell_of(head)
        x, y = box.x + head.head * side, box.y + head.row * side
        sheet.box(Box(x + gap, y + gap, side - 2 * gap, side - 2 * gap), color, seen)
        if size is None:
            continue
        if (fitting := size * min(1.0, (side - 2 * gap) / width_of(text, size))) < _SMALLEST_LETTER:
            text, fitting = "?", size  # as on a narrow terminal
        ink = readable_on(on_white(color, seen))
        sheet.text(x + side / 2, y + side / 2, text, align="center", size=fitting, color=ink)


def _cell(labels: Labels, head: Head) -> HeadCell:
    """A head's cell: the letter of what it does among words, as on the terminal."""
    name = str(labels.among_words[head.place])
    seen = RESTING_OPACITY if labels.rests[head.place] else 1.0
    return paper_color(name), seen, letter(name) + "?" * bool(labels.unsure[head.place])


def letter_size(side: float) -> float | None:
    """Of the letters in cells of a side in inches, in points; None where they would be too small to read."""
    size = min(SIZE, 0.8 * side / POINT)
    return size if size >= _SMALLEST_LETTER else None


def _key(labels: Labels, width: float) -> list[KeyEntry]:
    """Each kind that there is in the order of the screen, and how many heads have it; heads that rest are pale."""
    entries = [
        KeyEntry(f"{shortened(words(kind.name), width / 2)} ({len(kind.heads)})", *_look(group, kind.name))
        for group, kind in kinds_of(labels)
    ]
    if none := int((labels.among_words == "").sum()):
        entries.append(KeyEntry(f"{words('')} ({none})", paper_color(""), mark=letter("")))
    return entries


def _look(group: str, name: str) -> tuple[str, float, str]:
    return paper_color(name), RESTING_OPACITY if group == "rest" else 1.0, letter(name)
