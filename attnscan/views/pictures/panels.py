"""Panels, grids of cells, legends and captions: what every picture is made of.

Lengths are in inches.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attnscan.results.grid import Grid
from attnscan.text import plain
from attnscan.views import palette

LETTER_WIDTH = 0.053
"""The width of a letter of `palette.PAPER_SIZE`, on average."""
MAX_CELL = 0.3
"""The side of a head's cell at the most."""
MAX_HEIGHT = 9.0
"""The height of all panels together at the most, since a page is no longer."""
MIN_NAME_PITCH = 0.117
"""The least distance between rows that have a name."""
MIN_NUMBER_PITCH = 0.17
"""The least distance between columns that have a number."""
MAX_VECTOR_CELLS = 6000
"""So many cells are drawn as shapes; more become an image, so that the file stays small."""
COLOR_MAP = LinearSegmentedColormap.from_list("attnscan", palette.RAMP)
FAINT = "#666666"
GOLD = "#d55e00"
NO_BREAK = "\N{NO-BREAK SPACE}"


def make_panels(
    titles: Sequence[str], width: float, x: str = "", y: str = "", columns: int = 0
) -> tuple[Figure, list[Any], float]:
    """Equal panels, two abreast or four in a wide picture, and about how wide each is.

    Axes are named at the edges.
    """
    count = len(titles)
    columns = min(count, columns or (4 if width >= 5 else 2))
    across = (width - 0.4) / columns
    figure = Figure(figsize=(width, MAX_HEIGHT + 3), layout="constrained")
    axes = list(figure.subplots(math.ceil(count / columns), columns, squeeze=False).flat)
    for place, (ax, title) in enumerate(zip(axes, titles, strict=False)):
        is_last = place + columns >= count
        is_first = place % columns == 0
        ax.set_title(wrapped(title, across))
        ax.set(xlabel=x if is_last else "", ylabel=y if is_first else "")
        ax.tick_params(labelbottom=is_last, labelleft=is_first)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count], across


def finish(figure: Figure, height: float | None, *captions: str) -> Figure:
    """Say above everything what the picture is of, and make its panels so high.

    Panels are square, where no height is given.
    """
    width = figure.get_figwidth()
    ax = figure.axes[0]
    engine = figure.get_layout_engine()
    rows: int = ax.get_gridspec().nrows  # type: ignore[union-attr]
    title = "\n".join(wrapped(text, width - 0.1) for text in captions if text)
    figure.suptitle(title, x=0.04 / width, ha="left")
    for _ in range(3):  # what stands around a panel moves a little with its height
        engine.execute(figure)  # type: ignore[union-attr]
        total = figure.get_figheight()
        box = ax.get_position(original=True)
        wanted = height or box.width * width
        figure.set_figheight(total + rows * (wanted - box.height * total))
    return figure


def wrapped(text: str, width: float) -> str:
    """A text in lines of about a width."""
    letters = max(1, int(width / LETTER_WIDTH))
    return "\n".join(textwrap.wrap(plain(text), letters, break_on_hyphens=False))


def add_legend(figure: Figure, colors: Mapping[str, str]) -> None:
    """Explain the colours of some entries beneath everything, in columns; long entries break."""
    columns = max(1, min(len(colors), int(figure.get_figwidth() / 1.6)))
    room = figure.get_figwidth() / columns - 0.25
    handles = [Patch(color=color, label=wrapped(text, room)) for text, color in colors.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=columns)


def add_color_bar(axes: Sequence[Any], cells: Any, label: str) -> None:
    """Explain the shades of grids and heat maps, beneath their panels."""
    place: Any = {
        "ax": list(axes),
        "location": "bottom",
        "shrink": 0.6,
        "aspect": 30,
        "pad": 0.01,
        "panchor": False,
    }
    ticks = np.linspace(0, cells.get_clim()[1], 3)
    bar: Any = axes[0].figure.colorbar(cells, label=label, ticks=ticks, format="%.2g", **place)
    bar.solids.set(rasterized=False, edgecolor="face", linewidth=0.25)  # shapes, not an image


def draw_grids(
    titles: Sequence[str], values: NDArray[Any], grid: Grid, width: float, label: str, caption: str
) -> Figure:
    """A small layer x head grid for each title.

    Shape: `values` [layer, head, title], in [0, 1]; NaN is hatched.
    """
    figure, axes, across = make_panels(titles, width, "head", "layer")
    cell = across / grid.shape[1]
    rows = axes[0].get_gridspec().nrows
    down = min(MAX_CELL, cell, (MAX_HEIGHT / rows - 0.35) / grid.shape[0])
    for place, ax in enumerate(axes):
        cells = draw_cells(ax, values[..., place], cmap=COLOR_MAP, vmin=0, vmax=1)
        name_ticks(ax.xaxis, range(grid.shape[1]), cell, MIN_NUMBER_PITCH)
        name_ticks(ax.yaxis, grid.numbers, down)
    add_color_bar(axes, cells, label)
    if np.isnan(values).any():
        caption += " Hatched: no value."
    return finish(figure, grid.shape[0] * down, caption)


def draw_letters(
    grid: Grid,
    marks: Sequence[str],
    colors: Sequence[str],
    legend: Mapping[str, str],
    width: float,
    *captions: str,
) -> Figure:
    """Draw every head's mark on its colour in square cells.

    There are no marks where they would be too small to read.
    """
    figure, (ax,), across = make_panels([""], width, "head", "layer")
    layers, heads = grid.shape
    cell = min(MAX_CELL, across / heads, MAX_HEIGHT / layers)
    rgba = to_rgba_array(colors).reshape(layers, heads, 4)
    draw_cells(ax, rgba, edgecolors="white", linewidth=min(1.5, 7 * cell))
    name_ticks(ax.xaxis, range(heads), cell, MIN_NUMBER_PITCH)
    name_ticks(ax.yaxis, grid.numbers, cell)
    ax.set(aspect="equal", anchor="NW")
    add_legend(figure, legend)
    size = min(palette.PAPER_SIZE, 45 * cell)
    if size < 4:  # points
        return finish(figure, layers * cell, *captions, "No room for letters: --width gives more.")
    style = {"fontsize": size, "ha": "center", "va": "center_baseline", "in_layout": False}
    for head, mark, color in zip(grid, marks, colors, strict=True):
        ax.text(head.head, head.row, mark, color=palette.readable_on(color), **style)
    return finish(figure, layers * cell, *captions)


def draw_cells(ax: Any, values: NDArray[Any], **options: Any) -> Any:
    """Draw numbers or colours, cell (0, 0) at the upper left; NaN is hatched.

    Shape: [row, column, ...].
    """
    count = len(ax.figure.axes)
    rows, columns = values.shape[:2]
    ax.patch.set(facecolor="#ededed", edgecolor="#b5b5b5", hatch="//////", linewidth=0)
    look = {
        "edgecolors": "face",
        "linewidth": 0.25,
        "rasterized": count * rows * columns > MAX_VECTOR_CELLS,
        **options,
    }
    x = np.arange(columns + 1) - 0.5
    y = np.arange(rows + 1) - 0.5
    cells = ax.pcolormesh(x, y, np.ma.masked_invalid(values), **look)
    ax.set_ylim(rows - 0.5, -0.5)
    return cells


def name_ticks(
    axis: Any, names: Sequence[Any], pitch: float, needed: float = MIN_NAME_PITCH
) -> int:
    """Name rows or columns of a pitch, and return every how many of them have room for a name."""
    step = math.ceil(needed / pitch)
    axis.set_ticks(range(0, len(names), step), list(map(str, names[::step])))
    return step
