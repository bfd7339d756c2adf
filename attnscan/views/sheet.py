"""A sheet to draw on, measured in inches from its upper left corner: what all pictures share.

Nothing of matplotlib that is global is touched: no pyplot, no settings of the user's.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attnscan.options import Picture
from attnscan.plain import plain
from attnscan.results import Signature
from attnscan.views.palette import RAMP

Align = Literal["left", "center", "right"]

SIZE = 7.0
"""Of all text, in points: what journals ask for at the least."""
INK, FAINT, EMPTY = "#1a1a1a", "#666666", "#ededed"
POINT = 1 / 72
MARGIN = 0.04
LINE = 10.5 * POINT
"""From one line of text to the next."""
LONGEST = 9.0
"""No picture is taller: a page's column."""

_MIDDLE = 0.36  # of the size: how far a capital's middle lies above the baseline
_MEASURED_AT = 720  # pixels an inch: fine enough that hinting does not matter
_MOST_CELLS = 6000  # drawn one by one; more become an image, so that the file stays small
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
_COLORS = LinearSegmentedColormap.from_list("attnscan", RAMP)
_SETTINGS: dict[str, Any] = {
    "font.size": SIZE,
    "text.parse_math": False,
    "text.usetex": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "attnscan",  # the same names in every run
    "pdf.fonttype": 42,
    "hatch.linewidth": 0.4,
    "path.simplify": False,
}


@dataclass(frozen=True)
class Box:
    """A place on a sheet, in inches."""

    x: float
    y: float
    width: float
    height: float


@contextmanager
def drawing() -> Iterator[None]:
    """The library as it comes, whatever the user's settings, and silent on glyphs that no font here has."""
    settings: Any = {name: value for name, value in mpl.rcParamsDefault.items() if not name.startswith("backend")}
    settings |= _SETTINGS | {"font.sans-serif": list(_fonts())}
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


class Sheet:
    """An empty picture of a given size. To be used within `drawing()`."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._figure = Figure(figsize=(width, height))
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self._axes.set_xlim(0, width)
        self._axes.set_ylim(height, 0)

    def text(
        self, x: float, y: float, text: str, *, align: Align = "left", color: str = INK, size: float = SIZE,
        upward: bool = False,
    ) -> None:  # fmt: skip
        """A line of text, its capitals' middle at a height of `y`; `upward` turns it by 90 degrees around that."""
        below = _MIDDLE * size * POINT
        self._axes.text(
            x + below * upward,
            y + below * (not upward),
            plain(text),
            ha=align,
            va="baseline",
            rotation=90 * upward,
            rotation_mode="anchor",
            color=color,
            fontsize=size,
        )

    def box(self, box: Box, color: str, opacity: float = 1, hatched: bool = False) -> None:
        """A filled rectangle."""
        look: dict[str, Any] = {"facecolor": to_rgba(color, opacity), "linewidth": 0}
        if hatched:
            look |= {"hatch": "//////", "edgecolor": "#b5b5b5"}
        self._axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, **look))

    def frame(self, box: Box) -> None:
        """A thin line around a place."""
        look: dict[str, Any] = {"fill": False, "edgecolor": FAINT, "linewidth": 0.5}
        self._axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, **look))

    def line(
        self, x: Sequence[float], y: Sequence[float], color: str = FAINT, width: float = 0.5, *,
        dots: tuple[float, float] | None = None, marker: str = "",
    ) -> None:  # fmt: skip
        """A line through points, broken at NaN; `dots` are lengths of dash and gap in line widths."""
        style: Any = (0, dots) if dots else "-"
        self._axes.add_line(
            Line2D(x, y, color=color, linewidth=width, linestyle=style, marker=marker, markersize=2, clip_on=False)
        )

    def strokes(self, ends: NDArray[np.float64], strength: NDArray[np.float64]) -> None:
        """Straight lines, darker and wider by their strength. Shape: [line, 2, 2] as x and y, and [line] in [0, 1]."""
        colors = np.tile(np.asarray(to_rgba(RAMP[6])), (len(ends), 1))
        colors[:, 3] = strength
        self._axes.add_collection(LineCollection(list(ends), colors=colors, linewidths=0.3 + 1.2 * strength))

    def heat(self, box: Box, values: NDArray[Any], top: float, vector: bool) -> None:
        """A matrix in shades from 0 to `top`, NaN hatched. Shape: [row, column].

        `vector` says whether the picture will be one; then every pixel of an image is a cell.
        """
        rows, columns = values.shape
        if np.isnan(values).any():
            self.box(box, EMPTY, hatched=True)
        shown = np.ma.masked_invalid(values)
        scale = Normalize(0, top)
        if values.size <= _MOST_CELLS:
            edges = (
                np.linspace(box.x, box.x + box.width, columns + 1),
                np.linspace(box.y, box.y + box.height, rows + 1),
            )
            self._axes.pcolormesh(*edges, shown, cmap=_COLORS, norm=scale, edgecolors="face", linewidth=0.1)
        else:
            extent = (box.x, box.x + box.width, box.y + box.height, box.y)
            how = "none" if vector else "auto"
            self._axes.imshow(shown, cmap=_COLORS, norm=scale, extent=extent, aspect="auto", interpolation=how)

    def scale(self, x: float, y: float, top: float, name: str) -> None:
        """The key to `heat`: its shades from 0 to `top`, and what they stand for; one inch and a text wide."""
        box = Box(x + 0.1, y - 0.05, 0.8, 0.1)
        self.heat(box, np.linspace(0, top, 65)[None, 1:], top, vector=True)
        self.text(x + 0.06, y, "0", align="right")
        self.text(x + 0.94, y, f"{top:g}")
        self.text(x + 0.94 + width_of(f"{top:g} ") + 0.04, y, name)

    def to_bytes(self, format: Picture, signature: Signature, kind: str) -> bytes:
        """The picture as a file's content: the same bytes for the same input."""
        title = plain(f"attnscan plot --kind {kind}: {signature.model}")
        about = json.dumps(asdict(signature))
        file = io.BytesIO()
        metadata: dict[str, dict[str, str | None]] = {
            "png": {"Title": title, "Description": about},
            "svg": {"Title": title, "Description": about, "Date": None},
            "pdf": {"Title": title, "Subject": about, "CreationDate": None},
        }
        self._figure.savefig(file, format=format, dpi=300, metadata=metadata[format])
        return file.getvalue()


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
    for each in widths:
        if x and x + each > width:
            x, line = 0.0, line + 1
        places.append((x, line))
        x += each
    return places


def shortened(text: str, width: float) -> str:
    """A text, cut to `width` inches with an ellipsis if it is wider; a blank one becomes visible."""
    shown = plain(text).strip() or "␣"
    if width_of(shown) <= width:
        return shown
    kept = shown[: int(width / POINT)]  # no letter is narrower than a point
    while kept and width_of(kept + "…") > width:
        kept = kept[:-1]
    return kept + "…"


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
    return renderer(1, 1, _MEASURED_AT), FontProperties(family=list(_fonts()), size=size)


@cache
def _fonts() -> tuple[str, ...]:
    """The font that comes with matplotlib, and behind it what this machine has for other scripts."""
    there = set(fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in there))
