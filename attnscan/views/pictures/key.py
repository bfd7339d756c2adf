"""The key of a picture: swatches of colours, and what each stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnscan.views.pictures.lettering import flowed, width_of
from attnscan.views.pictures.sheet import LINE, MARGIN, Sheet

_SWATCH = 0.11
_LINE = 1.15 * LINE


@dataclass(frozen=True)
class Entry:
    """A part of a key: a text, and before it a swatch if it has a colour."""

    text: str
    color: str | None = None
    opacity: float = 1
    mark: str = ""

    @property
    def width(self) -> float:
        """In inches, with what sets it apart from the next."""
        return (_SWATCH + 0.04 if self.color else 0) + width_of(self.text) + 0.12


def height_of(entries: Sequence[Entry], width: float) -> float:
    """How high a key is in lines of some width, in inches."""
    return (flowed([entry.width for entry in entries], width)[-1][1] + 1) * _LINE


def draw_key(sheet: Sheet, entries: Sequence[Entry], y: float) -> None:
    """A key across the sheet, from `y` downwards."""
    places = flowed([entry.width for entry in entries], sheet.width - 2 * MARGIN)
    for entry, (x, line) in zip(entries, places, strict=True):
        place = MARGIN + x, y + (line + 0.5) * _LINE
        if entry.color is None:
            sheet.text(*place, entry.text)
        else:
            sheet.entry(*place, entry.text, entry.color, entry.opacity, mark=entry.mark, side=_SWATCH)
