"""What all pictures share: style, panels, grids of heads, captions, legends, height, and the file.

Nothing of matplotlib that is global is touched: no pyplot, no settings of the user's. Lengths are in inches.
"""

from __future__ import annotations

import io
import json
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attnscan.results.terms import Grid, Signature
from attnscan.text import plain
from attnscan.views.palette import INK, RAMP, readable_on

SIZE, LETTER = 7.0, 0.053  # of text in points, what journals ask for at the least; of a letter on average, in inches
CELL, LONGEST = 0.3, 9.0  # a head's cell at the most; all panels together, since a page is no longer
NAMED = 0.117  # a row with a name
COLORS = LinearSegmentedColormap.from_list("attnscan", RAMP)
FAINT, RULE = "#666666", "#d9d9d9"
ZERO_TO_ONE = (0, 0.5, 1), ("0", "0.5", "1")  # ticks

_MOST_CELLS = 6000  # drawn as shapes; more become an image, so that the file stays small
_SCRIPTS = {"Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"}
_STYLE: dict[str, Any] = {
    **dict.fromkeys(("font.size", "axes.titlesize", "figure.titlesize"), SIZE),
    **dict.fromkeys((f"axes.spines.{side}" for side in ("left", "right", "top", "bottom")), False),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size", "legend.borderpad"), 0),
    **dict.fromkeys(("axes.labelpad", "axes.titlepad", "xtick.major.pad", "ytick.major.pad"), 2),
    "axes.titlelocation": "left",
    "text.color": INK,
    "text.parse_math": False,  # names stay text
    "grid.color": RULE,
    "lines.linewidth": 1,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "attnscan",  # the same names in every run
    "pdf.fonttype": 42,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in our style, whatever the user's settings. Warns once of letters that no font of this machine has."""
    fonts = ["DejaVu Sans", *sorted(_SCRIPTS & {*fontManager.get_font_names()})]
    settings: Any = {**_STYLE, "font.family": fonts}
    with warnings.catch_warnings(record=True) as caught, mpl.rc_context():
        warnings.simplefilter("always")
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield
    missing = {chr(int(code)) for warning in caught for code in re.findall(r"Glyph (\d+)", str(warning.message))}
    if missing:
        letters = " ".join(sorted(missing)[:12])
        warnings.warn(f"no font here has {letters}: install one, as Noto Sans is for most scripts", stacklevel=4)


def wrapped(text: str, width: float) -> str:
    """A text in lines of about a width."""
    return "\n".join(textwrap.wrap(plain(text), max(1, int(width / LETTER)), break_on_hyphens=False))


def shortened(text: str, width: float) -> str:
    """A text, cut to about a width with an ellipsis if it is longer; a blank one becomes visible."""
    shown, most = plain(text).strip() or "␣", int(width / LETTER)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def panels(
    titles: Sequence[str], width: float, x: str = "", y: str = "", columns: int = 0
) -> tuple[Figure, list[Any], float]:
    """Equal panels that have their axes named and numbered at the edges, and about how wide each is.

    By default two stand side by side, or four in a wide picture.
    """
    count = len(titles)
    columns = min(count, columns or (4 if width >= 5 else 2))
    figure = Figure(figsize=(width, LONGEST + 3), layout="constrained")
    axes = list(figure.subplots(-(-count // columns), columns, squeeze=False).flat)
    for place, (ax, title) in enumerate(zip(axes, titles, strict=False)):
        is_last, is_first = place + columns >= count, place % columns == 0
        ax.set_title(wrapped(title, (width - 0.4) / columns))
        ax.set(xlabel=x * is_last, ylabel=y * is_first)
        ax.tick_params(labelbottom=is_last, labelleft=is_first)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count], (width - 0.4) / columns


def finish(figure: Figure, height: float | None, *sentences: str) -> Figure:
    """Say above everything what the picture is of, and make it so high that a panel has a height.

    Without one, it becomes as high as it is wide.
    """
    width, ax, engine = figure.get_figwidth(), figure.axes[0], figure.get_layout_engine()
    spec: Any = ax.get_gridspec()
    figure.suptitle("\n".join(wrapped(text, width - 0.1) for text in sentences if text), x=0.04 / width, ha="left")
    for _ in range(3):  # what stands around a panel moves a little with its height
        engine.execute(figure)  # type: ignore[union-attr]
        whole, box = figure.get_figheight(), ax.get_position(original=True)
        figure.set_figheight(whole + spec.nrows * ((height or box.width * width) - box.height * whole))
    return figure


def legend(figure: Figure, colors: Mapping[str, str]) -> None:
    """Explain the colours of some entries beneath everything, in columns; long entries break."""
    columns = max(1, min(len(colors), int(figure.get_figwidth() / 1.6)))
    room = figure.get_figwidth() / columns - 0.25
    handles = [Patch(color=color, label=wrapped(text, room)) for text, color in colors.items()]
    look: Any = {"handlelength": 1, "handletextpad": 0.5, "columnspacing": 1}
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, **look)


def color_bar(figure: Figure, axes: Sequence[Any], shown: Any, label: str) -> None:
    """Explain the shades of grids and heat maps, beneath their panels."""
    where: Any = {"ax": list(axes), "location": "bottom", "shrink": 0.6, "aspect": 30, "pad": 0.01, "panchor": False}
    ticks = [part * shown.get_clim()[1] for part in (0, 0.5, 1)]
    bar: Any = figure.colorbar(shown, label=label, ticks=ticks, format="%.2g", **where)
    bar.solids.set(rasterized=False, edgecolor="face", linewidth=0.25)  # shapes, not an image


def draw_cells(ax: Any, values: NDArray[Any], **options: Any) -> Any:
    """Draw numbers or colours, cell (0, 0) at the upper left; NaN is hatched. Shape: [row, column, ...]."""
    count, (rows, columns) = len(ax.figure.axes), values.shape[:2]
    ax.patch.set(facecolor="#ededed", edgecolor="#b5b5b5", hatch="//////", linewidth=0)
    how = {"edgecolors": "face", "linewidth": 0.25, "rasterized": count * rows * columns > _MOST_CELLS, **options}
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    shown = ax.pcolormesh(*edges, np.ma.masked_invalid(values), **how)
    ax.set_ylim(rows - 0.5, -0.5)
    return shown


def draw_letters(grid: Grid, marks: Sequence[str], colors: Sequence[str], width: float) -> tuple[Figure, float, str]:
    """Draw every head's mark on its colour in square cells; returns how high all are, and what to say of them."""
    figure, (ax,), across = panels([""], width, "head", "layer")
    layers, heads = grid.shape
    cell = min(CELL, across / heads, LONGEST / layers)
    rgb = np.array([to_rgb(color) for color in colors]).reshape(layers, heads, 3)
    draw_cells(ax, rgb, edgecolors="white", linewidth=min(1.5, 7 * cell))
    number(ax, grid, cell, cell)
    ax.set(aspect="equal", anchor="NW")
    if (size := min(SIZE, 45 * cell)) < 4:  # points: smaller letters cannot be read
        return figure, layers * cell, "No room for letters: --width gives more."
    where = {"ha": "center", "va": "center_baseline", "in_layout": False}
    for head, mark, color in zip(grid, marks, colors, strict=True):
        ax.text(head.head, head.row, mark, fontsize=size, color=readable_on(color), **where)
    return figure, layers * cell, ""


def number(ax: Any, grid: Grid, across: float, down: float) -> None:
    """Number heads across, which have a width, and layers downwards, which have a height."""
    name(ax.xaxis, list(map(str, range(grid.shape[1]))), across, 0.17)
    name(ax.yaxis, list(map(str, grid.numbers)), down)


def name(axis: Any, names: Sequence[str], pitch: float, needed: float = NAMED) -> int:
    """Name rows or columns of a pitch, and return every how many of them have the room that they need."""
    step = math.ceil(needed / pitch)
    axis.set_ticks(range(0, len(names), step), names[::step])
    return step


def to_bytes(figure: Figure, format: str, signature: Signature, kind: str) -> bytes:
    """The picture as a file's content: the same bytes for the same input."""
    about: dict[str, Any] = {"Title": plain(f"attnscan plot --kind {kind}: {signature.title}")}
    about["Subject" if format == "pdf" else "Description"] = json.dumps(asdict(signature))
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format, {})
    file = io.BytesIO()
    figure.savefig(file, format=format, dpi=300, metadata=about | undated)
    return file.getvalue()
