"""The key of a picture: swatches of colours, and what each stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnscan.views.pictures.lettering import flowed, width_of
from attnscan.views.pictures.sheet import LINE, MARGIN, Sheet

_SWATCH = 0.11
_LINE = 1.15 * LINE
_APART = 0.12


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
        return (_SWATCH + 0.04 if self.color else 0) + width_of(self.text) + _APART


def height_of(entries: Sequence[Entry], width: float, *, aligned: bool = False) -> float:
    """How high a key is in lines of some width, in inches; `aligned` entries stand in columns."""
    return (_places(entries, width, aligned)[-1][1] + 1) * _LINE


def draw_key(sheet: Sheet, entries: Sequence[Entry], y: float, *, aligned: bool = False) -> None:
    """A key across the sheet, from `y` downwards."""
    places = _places(entries, sheet.width - 2 * MARGIN, aligned)
    for entry, (x, line) in zip(entries, places, strict=True):
        place = MARGIN + x, y + (line + 0.5) * _LINE
        if entry.color is None:
            sheet.text(*place, entry.text)
        else:
            sheet.entry(*place, entry.text, entry.color, entry.opacity, mark=entry.mark, side=_SWATCH)


def _places(entries: Sequence[Entry], width: float, aligned: bool) -> list[tuple[float, int]]:
    """Where each entry stands: inches from the left, and the line."""
    widths = [entry.width for entry in entries]
    if not aligned:
        return flowed(widths, width)
    columns = max(1, int((width + _APART) / max(widths)))
    return [(i % columns * (width + _APART) / columns, i // columns) for i in range(len(widths))]
