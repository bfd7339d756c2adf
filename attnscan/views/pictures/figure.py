"""What all pictures share: their style, panels, heat maps, captions, legends, height, and the file.

Nothing of matplotlib that is global is touched: no pyplot, no settings of the user's.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

from attnscan.errors import SelectionError
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.signature import Signature
from attnscan.safe_text import plain
from attnscan.views.palette import INK, RAMP
from attnscan.views.pictures.look import Picture

SIZE, SMALLEST = 7.0, 4.0
"""Of text, in points: what journals ask for at the least; of a letter in a cell, at the least."""
LARGEST_CELL, LONGEST = 0.3, 9.0
"""In inches: a head's cell is no larger, and all panels together are no higher, since a page is not."""
COLORS = LinearSegmentedColormap.from_list("attnscan", RAMP)
FAINT, RULE = "#666666", "#d9d9d9"
NO_VALUE: dict[str, Any] = {"facecolor": "#ededed", "edgecolor": "#b5b5b5", "hatch": "//////", "linewidth": 0}
ZERO_TO_ONE = (0, 0.5, 1), ("0", "0.5", "1")
"""Ticks of a score or a share."""

_DPI = 300
_EDGE, _EXACT = 0.04, 0.005  # inches: around everything; as near as a panel comes to its height
_ENTRY = 1.6  # inches of a legend's entry, at least
_MOST_CELLS = 6000  # drawn as shapes; more become an image, so that the file stays small
_SCRIPTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari")
_FALLBACKS = (*_SCRIPTS, "Hiragino Sans", "Yu Gothic", "Microsoft YaHei", "Arial Unicode MS")
_STYLE: dict[str, Any] = {
    "font.size": SIZE,
    "text.color": INK,
    "text.parse_math": False,  # names stay text
    "axes.titlesize": SIZE,
    "axes.titlelocation": "left",
    "axes.titlepad": 3,
    "axes.labelsize": SIZE,
    "axes.labelpad": 2,
    "axes.linewidth": 0.5,
    "axes.edgecolor": FAINT,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.4,
    "xtick.labelsize": SIZE,
    "ytick.labelsize": SIZE,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "figure.titlesize": SIZE,
    "figure.dpi": _DPI,
    "figure.constrained_layout.w_pad": _EDGE,
    "figure.constrained_layout.h_pad": _EDGE,
    "figure.constrained_layout.wspace": 0,
    "figure.constrained_layout.hspace": 0,
    "legend.fontsize": SIZE,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.3,
    "legend.handlelength": 1,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1,
    "lines.linewidth": 1,
    "hatch.linewidth": 0.4,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "attnscan",  # the same names in every run
    "pdf.fonttype": 42,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in our style, whatever the user's settings, and silently where no font has a glyph."""
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if not name.startswith("backend")}
    settings: Any = defaults | _STYLE | {"font.sans-serif": list(_fonts())}
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


@cache
def _fonts() -> tuple[str, ...]:
    """The font that comes with matplotlib, and behind it what this machine has for other scripts."""
    installed = set(fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in installed))


def missing_letters(text: str) -> set[str]:
    """The letters of a text that no font has."""
    fonts = [get_font(findfont(FontProperties(family=name))) for name in _fonts()]
    return {letter for letter in text if letter != "\n" and not any(font.get_char_index(ord(letter)) for font in fonts)}


@cache
def width_of(text: str) -> float:
    """How wide a line of text will be, in inches."""
    width, _, _ = text_to_path.get_text_width_height_descent(plain(text), FontProperties(size=SIZE), False)
    return float(width) / 72


def wrapped(text: str, width: float) -> str:
    """A text in lines of at most `width` inches: broken between words, and within a word that is wider by itself."""
    lines = [""]
    for word in plain(text).split(" "):
        if lines[-1] and width_of(f"{lines[-1]} {word}") > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
        while len(start := _start(lines[-1], width)) < len(lines[-1]):
            lines[-1:] = [start, lines[-1][len(start) :]]
    return "\n".join(lines)


def shortened(text: str, width: float) -> str:
    """A text, cut to `width` inches with an ellipsis if it is wider; a blank one becomes visible."""
    shown = plain(text).strip() or "␣"
    return shown if width_of(shown) <= width else _start(shown, width - width_of("…")) + "…"


def _start(text: str, width: float) -> str:
    """As much of a text as a width holds, but one letter at least."""
    start = text[: max(1, int(72 * width))]  # no letter is narrower than a point
    while len(start) > 1 and width_of(start) > width:
        start = start[:-1]
    return start


def new_figure(width: float) -> Figure:
    """An empty figure of a width in inches; `fit_height` gives it its height."""
    return Figure(figsize=(width, LONGEST + 3), layout="constrained")


def panels(count: int, width: float, x: str = "", y: str = "", columns: int = 0) -> tuple[Figure, list[Axes], int]:
    """Equal panels that share their axes, named and numbered at the edges, and how many stand side by side.

    By default two do, or four in a wide picture.
    """
    columns = min(count, columns or (4 if width >= 5 else 2))
    figure = new_figure(width)
    axes = list(figure.subplots(-(-count // columns), columns, sharex="col", sharey="row", squeeze=False).flat)
    for ax in axes[count:]:
        ax.remove()
    for ax in axes[max(0, count - columns) : count]:  # those that no other is below
        ax.set_xlabel(x)
        ax.xaxis.set_tick_params(labelbottom=True)
    for ax in axes[:count:columns]:
        ax.set_ylabel(y)
    return figure, axes[:count], columns


def fit_height(figure: Figure, ax: Axes, height_of: Callable[[float], float], squares: Sequence[Axes] = ()) -> None:
    """Make the figure so high that a panel has the height that belongs to its width, in inches; keep that layout.

    Rows of other panels have their heights by the ratios of the grid that the panel is in. The cells of `squares`
    become square.
    """
    engine, gridspec = figure.get_layout_engine(), ax.get_gridspec()
    assert engine is not None and gridspec is not None
    ratios: Any = gridspec.get_height_ratios()
    for _ in range(3):  # what stands around a panel moves a little with its height
        engine.execute(figure)
        height, place = figure.get_figheight(), ax.get_position(original=True)
        missing = height_of(place.width * figure.get_figwidth()) - place.height * height
        if abs(missing) < _EXACT:
            break
        figure.set_figheight(height + sum(ratios) / ratios[0] * missing)
    else:
        engine.execute(figure)
    figure.set_layout_engine("none")
    for square in squares:
        square.set(aspect="equal", anchor="NW")


def caption(figure: Figure, *sentences: str) -> None:
    """Say above everything what the picture is of; each sentence begins a line."""
    width = figure.get_figwidth()
    lines = [wrapped(sentence, width - 2 * _EDGE) for sentence in sentences if sentence]
    figure.suptitle("\n".join(lines), x=_EDGE / width, ha="left")


def legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Explain colours and lines beneath everything, in as many columns as there is room for; long entries break."""
    room, swatch = figure.get_figwidth() - 2 * _EDGE, 0.25
    labels = [str(handle.get_label()) for handle in handles]
    columns = max(int(room / (swatch + max(map(width_of, labels)))), int(room / _ENTRY), 1)
    labels = [wrapped(label, room / columns - swatch) for label in labels]
    figure.legend(list(handles), labels, loc="outside lower left", ncols=min(columns, len(handles)))


def color_bar(figure: Figure, axes: Sequence[Axes], shown: ScalarMappable, label: str) -> None:
    """Explain the shades of heat maps, beneath their panels."""
    low, high = shown.get_clim()
    bar = figure.colorbar(
        shown, ax=list(axes), location="bottom", label=label, shrink=0.6, aspect=30, pad=0.01, panchor=False
    )
    bar.outline.set_visible(False)
    assert bar.solids is not None
    bar.solids.set(rasterized=False, edgecolor="face", linewidth=0.25)  # shapes, not an image
    middle = (low + high) / 2
    bar.set_ticks([low, middle, high], labels=[f"{value:.2g}" for value in (low, middle, high)])


def heat(ax: Axes, values: NDArray[Any], border: float = 0, color: str = "white", **scale: Any) -> ScalarMappable:
    """Draw a matrix, cell (0, 0) at the upper left, with borders of so many points and a color; NaN is hatched.

    Shape: [row, column], or [row, column, 3] of colours in [0, 1].
    """
    rows, columns = values.shape[:2]
    if values.ndim == 2:
        values = np.ma.masked_invalid(values)
        ax.patch.set(**NO_VALUE)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    figure = ax.get_figure()
    if figure is not None and len(figure.axes) * rows * columns > _MOST_CELLS:
        extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
        return ax.imshow(values, aspect="auto", extent=extent, interpolation="none", **scale)
    edges: dict[str, Any] = {"edgecolors": color if border else "face", "linewidth": border or 0.25}
    return ax.pcolormesh(np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, values, **edges, **scale)


def number(axis: Axis, numbers: Sequence[int], pitch: float) -> None:
    """Number a grid's columns or rows, which are so many inches apart, as far as there is room."""
    places = range(0, len(numbers), step_of(pitch, width_of("00 ")))
    axis.set_ticks(places, [str(numbers[place]) for place in places])


def number_heads(ax: Axes, grid: Grid, across: float, down: float) -> None:
    """Number the layers and heads of a grid whose cells are so many inches wide and high."""
    heads = grid.shape[1]
    number(ax.xaxis, range(heads), across)
    number(ax.yaxis, grid.numbers, down)


def step_of(pitch: float, needed: float) -> int:
    """Every how many cells of a pitch a label has the room that it needs: 1, 2, 5, 10, ...

    >>> step_of(0.1, 0.08), step_of(0.01, 0.08)
    (1, 10)
    """
    steps = (digit * 10**power for power in range(7) for digit in (1, 2, 5))
    return next(int(step) for step in steps if step * pitch >= needed)


def check_heads_can_be_seen(inches: float, grid: Grid, width: float, command: str) -> None:
    """Raises: SelectionError if what stands for a head, of so many inches, is less than a dot of a printed picture.

    `command` is the one that lists the same heads.
    """
    if inches < 1 / _DPI:
        layers, heads = grid.shape
        raise SelectionError(
            f"{layers} layers of {heads} heads have no room in a picture {width:g} inches wide",
            f"give a larger --width, or list the heads: attnscan {command} --csv",
        )


def of_kind(grid: Grid) -> str:
    """Of which attention of an encoder-decoder heads are; nothing of other models."""
    kind = grid[0].kind
    return "" if kind is AttentionKind.ONLY else f" of {kind.word} attention"


def to_bytes(figure: Figure, format: Picture, signature: Signature, kind: str) -> bytes:
    """The picture as a file's content: the same bytes for the same input."""
    title, about = plain(f"attnscan plot --kind {kind}: {signature.title}"), json.dumps(asdict(signature))
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Title": title, "Description": about},
        "svg": {"Title": title, "Description": about, "Date": None},
        "pdf": {"Title": title, "Subject": about, "CreationDate": None},
    }
    file = io.BytesIO()
    figure.savefig(file, format=format, dpi=_DPI, metadata=metadata[format])
    return file.getvalue()
