"""The picture of heads' weights for one input."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnscan.errors import SelectionError
from attnscan.results.grid import AttentionKind, Heads
from attnscan.results.heads import HeadScores
from attnscan.text import plain
from attnscan.views import palette
from attnscan.views.pictures.panels import (
    COLOR_MAP,
    GOLD,
    LETTER_WIDTH,
    MAX_HEIGHT,
    MIN_NAME_PITCH,
    add_color_bar,
    draw_cells,
    finish,
    make_panels,
    name_ticks,
)

MAX_LINES = 2000
"""So many lines of a head are drawn at the most: the strongest."""
MIN_LINE_WEIGHT = 0.01
"""Weaker weights are not drawn as lines."""


def draw_weights(
    result: HeadScores, width: float, heads: Heads = (), lines: bool = False
) -> Figure:
    """Weights of heads on one scale: heat maps, queries downwards and keys across, or lines.

    Lines lead from queries to keys. Gold links are outlined, or dotted.
    Raises: SelectionError for no heads, or too many for the width.
    """
    attention = result.shown_attention
    chosen = result.grid.select(heads)
    queries = attention.query_tokens
    keys = attention.key_tokens
    tokens = _short_tokens(attention.tokens, width)
    rows = [tokens[query] for query in queries]
    columns = [tokens[key] for key in keys]
    abreast, pitch = _layout(rows, columns, len(chosen), result.grid.shape[1], width, lines)
    weights = [attention.rows_of(head, queries)[:, keys] for head in chosen]
    top = max(np.ceil(20 * np.max(weights)) / 20, 0.05)
    links = [(queries.index(query), keys.index(key)) for query, key in result.links]
    gold = np.array(links).reshape(-1, 2).T
    y, x = ("target", "source") if attention.kind is AttentionKind.CROSS else ("query", "key")
    figure, axes, _ = make_panels(
        [head.name for head in chosen], width, "" if lines else x, y, abreast
    )
    for ax, matrix in zip(axes, weights, strict=True):
        step = name_ticks(ax.yaxis, rows, pitch)
        if lines:
            right = _draw_lines(ax, matrix, top, gold)
            name_ticks(right.yaxis, columns, pitch)
            right.set(ylabel=x)
        else:
            cells = draw_cells(ax, matrix, cmap=COLOR_MAP, vmin=0, vmax=top)
            frame: Any = {"markerfacecolor": "none", "markeredgecolor": GOLD}
            ax.plot(*gold[::-1], "s", markersize=65 * pitch, **frame)
            name_ticks(ax.xaxis, columns, pitch)
            ax.tick_params(axis="x", rotation=90)
            ax.set(aspect="equal", anchor="NW")
    if not lines:
        add_color_bar(axes, cells, "weight")
    longest = max(len(rows), len(columns)) if lines else len(rows)
    return finish(figure, pitch * longest, *_weights_captions(result, lines, top, step))


def _short_tokens(tokens: Sequence[str], width: float) -> list[str]:
    """Tokens as a picture writes them: cut where they would take more than a fifth of its width."""
    most = int(0.2 * width / LETTER_WIDTH)  # letters
    written = [plain(token).strip() or "␣" for token in tokens]
    return [token if len(token) <= most else f"{token[: most - 1]}…" for token in written]


def _draw_lines(ax: Any, matrix: NDArray[np.float32], top: float, gold: NDArray[Any]) -> Any:
    """Draw a head's weights as lines from queries to keys, and return the axes of the keys."""
    weakest = max(MIN_LINE_WEIGHT, np.sort(matrix, None)[-MAX_LINES:][0])
    strong = np.argwhere(matrix >= weakest)
    strength = matrix[*strong.T] / top
    segments = [((0, query), (1, key)) for query, key in strong]
    look: Any = {
        "alpha": strength,
        "linewidths": 0.3 + 1.2 * strength,
        "colors": palette.RAMP[6],
    }
    ax.add_collection(LineCollection(segments, **look))
    ax.plot((0, 1), gold, ":", color=GOLD)
    right = ax.twinx()
    right.set(xlim=(0, 1), ylim=(max(matrix.shape) - 0.5, -0.5), xticks=())
    ax.set_ylim(right.get_ylim())
    ax.tick_params(labelleft=True)
    return right


def _weights_captions(result: HeadScores, lines: bool, top: float, step: int) -> Iterator[str]:
    """What weights are of, which lines are drawn, and which tokens are named."""
    kind = result.shown_attention.kind
    attention = "attention" if kind is AttentionKind.ONLY else f"{kind.word} attention"
    caption = f"{attention.capitalize()}, {result.shown}."
    if result.links:
        caption += " Gold links are dotted." if lines else " Gold links are outlined."
    yield caption
    if lines:
        most = f"at most the {MAX_LINES} strongest of a head"
        yield f"Weights from {MIN_LINE_WEIGHT} to {top:.2g} are drawn, {most}."
    if step > 1:
        yield f"One token in {step} is named."


def _layout(
    rows: list[str], keys: list[str], count: int, layer: int, width: float, lines: bool
) -> tuple[int, float]:
    """How many heads stand side by side, so that most tokens are named, and how high a token is."""
    left, right = (LETTER_WIDTH * max(map(len, side)) for side in (rows, keys))
    largest, least = (0.146, 0.15) if lines else (0.22, 0.32)  # of a token, and of a panel
    best = (0.0, 0, 0.0)
    for columns in range(1, count + 1):
        if count % layer == 0 and layer % columns:
            continue  # whole layers, of so many heads, stand in whole rows
        high = MAX_HEIGHT / math.ceil(count / columns) - 0.2
        if lines and width / columns - left - right <= 1:
            pitch = 0.0
        elif lines:
            pitch = high / max(len(rows), len(keys))
        else:
            pitch = min(high / len(rows), ((width - left - 0.3) / columns - 0.05) / len(keys))
        if pitch >= min(largest, least / len(keys)):
            best = max(best, (min(pitch, MIN_NAME_PITCH), columns, min(pitch, largest)))
    _, columns, pitch = best
    if not columns:
        reason = f"{count} heads have no room in a picture {width:g} inches wide"
        raise SelectionError(reason, "name fewer of them, or give a larger ``width``")
    return columns, pitch
