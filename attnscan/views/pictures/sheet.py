"""A sheet to draw on, measured in inches from its upper left corner: what all pictures share, their keys included.

Nothing of matplotlib that is global is touched: no pyplot, no settings of the user's.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attnscan.results.signature import Signature
from attnscan.safe_text import plain
from attnscan.views.palette import INK, RAMP, on_white, readable_on
from attnscan.views.pictures.lettering import POINT, SIZE, flowed, fonts, lacking, width_of
from attnscan.views.pictures.look import Picture

Align = Literal["left", "center", "right"]

FAINT, EMPTY = "#666666", "#ededed"
MARGIN = 0.04
LINE = 10.5 * POINT
"""From one line of text to the next."""
LONGEST = 9.0
"""No picture's content is taller: a page's column."""
DPI = 300
DOT = 1 / DPI
"""The smallest thing that can be seen, in inches."""
MOST_CELLS = 6000
"""Drawn one by one; more become images, so that the file stays small."""

_MIDDLE = 0.36  # of the size: how far a capital's middle lies above the baseline
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
_SWATCH = 0.11
_LINE = 1.15 * LINE
_APART = 0.12


@dataclass(frozen=True)
class Box:
    """A place on a sheet, in inches."""

    x: float
    y: float
    width: float
    height: float


def scale_width(top: float, name: str) -> float:
    """How wide the key to `heat` is."""
    return 0.98 + width_of(f"{top:g} ") + width_of(name)


@contextmanager
def drawing() -> Iterator[None]:
    """The library as it comes, whatever the user's settings, and silent on glyphs that no font here has."""
    settings: Any = {name: value for name, value in mpl.rcParamsDefault.items() if not name.startswith("backend")}
    settings |= _SETTINGS | {"font.sans-serif": list(fonts())}
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


class Sheet:
    """An empty picture of a given size. To be used within `drawing()`.

    `cells` is how many `heat` will draw in all, and `vector` whether the picture is drawn when looked at, at any size.
    """

    def __init__(self, width: float, height: float, *, cells: int = 0, vector: bool = True) -> None:
        self.width, self.height = width, height
        self.lacking: set[str] = set()
        """The letters of its texts that no font here has."""
        self._as_images, self._vector = cells > MOST_CELLS, vector
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
        self.lacking |= lacking(text)
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

    def lines(self, lines: Sequence[str], y: float, color: str = INK) -> None:
        """Lines of text one below the other, the first one's top at `y`."""
        for i, line in enumerate(lines):
            self.text(MARGIN, y + (i + 0.5) * LINE, line, color=color)

    def box(self, box: Box, color: str, opacity: float = 1, hatched: bool = False) -> None:
        """A filled rectangle."""
        look: dict[str, Any] = {"facecolor": to_rgba(color, opacity), "linewidth": 0}
        if hatched:
            look |= {"hatch": "//////", "edgecolor": "#b5b5b5"}
        self._add(box, look)

    def _add(self, box: Box, look: dict[str, Any]) -> None:
        """Add a rectangle; `add_patch` would ask each time how far the data reach, which takes longer than all else."""
        self._axes.add_artist(Rectangle((box.x, box.y), box.width, box.height, **look))

    def entry(
        self, x: float, y: float, text: str, color: str, opacity: float = 1, *, mark: str = "", side: float = 0.1,
        gap: float = 0.04,
    ) -> None:  # fmt: skip
        """A part of a key: a swatch of a colour, with a letter in it if there is a `mark`, and what it stands for."""
        self.box(Box(x, y - side / 2, side, side), color, opacity)
        if mark:
            self.text(x + side / 2, y, mark, align="center", size=6, color=readable_on(on_white(color, opacity)))
        self.text(x + side + gap, y, text)

    def frame(self, box: Box, color: str = FAINT, width: float = 0.5) -> None:
        """A line around a place."""
        look: dict[str, Any] = {"fill": False, "edgecolor": color, "linewidth": width}
        self._add(box, look)

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

    def heat(self, box: Box, values: NDArray[Any], top: float) -> None:
        """A matrix in shades from 0 to `top`, NaN hatched. Shape: [row, column]."""
        rows, columns = values.shape
        if np.isnan(values).any():
            self.box(box, EMPTY, hatched=True)
        shown = np.ma.masked_invalid(values)
        scale = Normalize(0, top)
        if self._as_images:
            extent = (box.x, box.x + box.width, box.y + box.height, box.y)
            how = "none" if self._vector else "auto"  # in a vector picture, every pixel of an image is a cell
            self._axes.imshow(shown, cmap=_COLORS, norm=scale, extent=extent, aspect="auto", interpolation=how)
            return
        x, y = np.linspace(0, box.width, columns + 1), np.linspace(0, box.height, rows + 1)
        self._axes.pcolormesh(box.x + x, box.y + y, shown, cmap=_COLORS, norm=scale, edgecolors="face", linewidth=0.25)

    def image(self, box: Box, colors: NDArray[np.float64]) -> None:
        """Cells without borders, each of one colour. Shape: [row, column, 4], red to opacity, each in [0, 1]."""
        extent = (box.x, box.x + box.width, box.y + box.height, box.y)
        self._axes.imshow(colors, extent=extent, aspect="auto", interpolation="none")

    def scale(self, x: float, y: float, top: float, name: str) -> None:
        """The key to `heat`: its shades from 0 to `top`, and what they stand for; one inch and a text wide."""
        box = Box(x + 0.1, y - 0.05, 0.8, 0.1)
        self.heat(box, np.linspace(0, top, 65)[None, 1:], top)
        self.text(x + 0.06, y, "0", align="right")
        self.text(x + 0.94, y, f"{top:g}")
        self.text(x + 0.94 + width_of(f"{top:g} ") + 0.04, y, name)

    def to_bytes(self, format: Picture, signature: Signature, kind: str) -> bytes:
        """The picture as a file's content: the same bytes for the same input."""
        title = plain(f"attnscan plot --kind {kind}: {signature.title}")
        about = json.dumps(asdict(signature))
        file = io.BytesIO()
        metadata: dict[str, dict[str, str | None]] = {
            "png": {"Title": title, "Description": about},
            "svg": {"Title": title, "Description": about, "Date": None},
            "pdf": {"Title": title, "Subject": about, "CreationDate": None},
        }
        self._figure.savefig(file, format=format, dpi=DPI, metadata=metadata[format])
        return file.getvalue()


@dataclass(frozen=True)
class KeyEntry:
    """A part of a key: a text, and before it a swatch if it has a colour."""

    text: str
    color: str | None = None
    opacity: float = 1
    mark: str = ""

    @property
    def width(self) -> float:
        """In inches, with what sets it apart from the next."""
        return (_SWATCH + 0.04 if self.color else 0) + width_of(self.text) + _APART


def height_of(entries: Sequence[KeyEntry], width: float, *, aligned: bool = False) -> float:
    """How high a key is in lines of some width, in inches; `aligned` entries stand in columns."""
    return (_places(entries, width, aligned)[-1][1] + 1) * _LINE


def draw_key(sheet: Sheet, entries: Sequence[KeyEntry], y: float, *, aligned: bool = False) -> None:
    """A key across the sheet, from `y` downwards."""
    places = _places(entries, sheet.width - 2 * MARGIN, aligned)
    for entry, (x, line) in zip(entries, places, strict=True):
        place = MARGIN + x, y + (line + 0.5) * _LINE
        if entry.color is None:
            sheet.text(*place, entry.text)
        else:
            sheet.entry(*place, entry.text, entry.color, entry.opacity, mark=entry.mark, side=_SWATCH)


def _places(entries: Sequence[KeyEntry], width: float, aligned: bool) -> list[tuple[float, int]]:
    """Where each entry stands: inches from the left, and the line."""
    widths = [entry.width for entry in entries]
    if not aligned:
        return flowed(widths, width)
    columns = max(1, int((width + _APART) / max(widths)))
    return [(i % columns * (width + _APART) / columns, i // columns) for i in range(len(widths))]
