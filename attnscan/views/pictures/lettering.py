"""Lettering: which fonts, how wide a text will be, and how texts are made to fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.ft2font import FT2Font

from attnscan.safe_text import plain

SIZE = 7.0
"""Of all text, in points: what journals ask for at the least."""
SMALLEST = 4.0
"""Of a title that has no room for more."""
POINT = 1 / 72
"""In inches."""

_SLIGHTLY_LESS = 0.97  # letters do not shrink by quite as much as their size
_MEASURED_AT = 720  # pixels an inch: fine enough that hinting does not matter
_FALLBACKS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Hiragino Sans",
    "Yu Gothic",
    "Microsoft YaHei",
    "Arial Unicode MS",
)


@lru_cache(maxsize=4096)
def width_of(text: str, size: float = SIZE) -> float:
    """How wide a line of text will be, in inches."""
    renderer, properties = _measuring(size)
    pixels: float = renderer.get_text_width_height_descent(plain(text), properties, ismath=False)[0]
    return pixels / _MEASURED_AT


def wrapped(text: str, width: float) -> list[str]:
    """Lines that are at most `width` inches wide, broken between words."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and width_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def flowed(widths: Sequence[float], width: float) -> list[tuple[float, int]]:
    """Where entries of some widths stand in lines of a width, left to right: inches from the left, and the line.

    >>> flowed([1, 1, 1], 2.5)
    [(0.0, 0), (1.0, 0), (0.0, 1)]
    """
    places, x, line = [], 0.0, 0
    for entry in widths:
        if x and x + entry > width:
            x, line = 0.0, line + 1
        places.append((x, line))
        x += entry
    return places


def shortened(text: str, width: float, size: float = SIZE) -> str:
    """A text, cut to `width` inches with an ellipsis if it is wider; a blank one becomes visible."""
    shown = plain(text).strip() or "␣"
    if width_of(shown, size) <= width:
        return shown
    kept = shown[: int(width / POINT)]  # no letter is narrower than a point
    while kept and width_of(kept + "…", size) > width:
        kept = kept[:-1]
    return kept + "…"


def shrunk(text: str, width: float) -> tuple[str, float]:
    """A text and the size at which it is no wider than `width` inches, at the least `SMALLEST`; cut if that is more."""
    size = max(SMALLEST, min(SIZE, _SLIGHTLY_LESS * SIZE * width / max(width_of(text), POINT)))
    return shortened(text, width, size), size


def lacking(text: str) -> set[str]:
    """The letters of a text that no font has."""
    return {letter for letter in plain(text) if not any(font.get_char_index(ord(letter)) for font in _faces())}


@cache
def _faces() -> tuple[FT2Font, ...]:
    return tuple(get_font(findfont(FontProperties(family=name))) for name in fonts())


def step_of(pitch: float, needed: float) -> int:
    """Every how many cells of a pitch a label has the room that it needs: 1, 2, 5, 10, ...

    >>> step_of(0.1, 0.08), step_of(0.01, 0.08)
    (1, 10)
    """
    steps = (digit * 10**power for power in range(7) for digit in (1, 2, 5))
    return next(int(step) for step in steps if step * pitch >= needed)


@cache
def _measuring(size: float) -> tuple[Any, FontProperties]:
    renderer: Any = RendererAgg  # its types are not declared
    return renderer(1, 1, _MEASURED_AT), FontProperties(family=list(fonts()), size=size)


@cache
def fonts() -> tuple[str, ...]:
    """The font that comes with matplotlib, and behind it what this machine has for other scripts."""
    there = set(fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in there))
