"""The pictures of chosen heads' weights: as heat maps, and as lines from token to token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from attnscan.errors import SelectionError
from attnscan.results.attention import Attention
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.signature import Reading
from attnscan.views.palette import INK, RAMP
from attnscan.views.pictures import figure as shared

_LINE, _NAMED = 0.146, 0.117  # inches of a token's row, usually, and at least for its name
_LARGEST_CELL = 0.22
_TITLED = 0.2  # inches, with the name of the head above a panel
_SMALLEST_PANEL = 0.32  # inches: room for the name of a head
_BETWEEN = 0.7  # inches, at least, for the lines between two columns of tokens
_LEAST_LINE = 0.01  # weights below are not drawn as lines
_MOST_LINES = 2000  # of one head
_GOLD = "#d55e00"
Links = Sequence[tuple[int, int]]
"""Gold links of cross attention: a token of the target, and one of the source."""


@dataclass(frozen=True)
class _Tokens:
    """The tokens of one side, queries or keys: all but padding."""

    places: list[int]
    texts: list[str]
    colors: list[str]
    """Special tokens are faint."""
    cuts: list[float]
    """The rows before which sentence B begins."""

    @classmethod
    def of(cls, attention: Attention, places: list[int], longest: float) -> _Tokens:
        """Some tokens, none written wider than `longest` inches."""
        texts = [shared.shortened(attention.tokens[place], longest) for place in places]
        colors = [shared.FAINT if attention.sentence[place] == -1 else INK for place in places]
        segments = np.array(attention.segments)[places]
        return cls(places, texts, colors, [float(row) + 0.5 for row in np.flatnonzero(np.diff(segments))])

    @property
    def width(self) -> float:
        """Of the widest, in inches."""
        return max(map(shared.width_of, self.texts))

    def name(self, axis: Axis, pitch: float) -> str:
        """Name rows of a pitch in inches, or number them where not even every fourth has room; returns what to say."""
        count, step = len(self.places), math.ceil(_NAMED / pitch)
        if step > 4:
            axis.set_major_locator(MaxNLocator(max(1, min(4, int(4 * pitch * count))), integer=True))
            return f"{count} tokens, too many to name: their positions."
        axis.set_ticks(range(0, count, step), self.texts[::step])
        for tick, color in zip(axis.get_major_ticks(), self.colors[::step], strict=True):
            tick.label1.set_color(color)
            tick.label2.set_color(color)
        which = {1: "", 2: "every second", 3: "every third", 4: "every fourth"}[step]
        return f"Of the {count} tokens {which} is named." if which else ""


def weights_figure(
    attention: Attention, heads: Sequence[Head], width: float, reading: Reading, links: Links, lines: bool
) -> Figure:
    """Each head's weights on one scale: as a heat map, queries downwards and keys across, or as lines.

    Gold links are outlined, or dotted. Raises: SelectionError if these are too many heads for the width.
    """
    longest = min(width / 4, (width - _BETWEEN - 0.3) / 2)
    rows, keys = (_Tokens.of(attention, places, longest) for places in (attention.asking, attention.asked))
    weights = [attention.rows_of(head, rows.places)[:, keys.places] for head in heads]
    gold = [(rows.places.index(query), keys.places.index(key)) for query, key in links]
    title = ""
    if attention.kind is not AttentionKind.ONLY:
        linked = f" Gold links are {'dotted' if lines else 'outlined'}." if gold else ""
        title = f"{attention.kind.word.capitalize()} attention, {reading}.{linked}"
    sides = ("target", "source") if attention.kind is AttentionKind.CROSS else ("query", "key")
    draw = _lines if lines else _heat_maps
    return draw(heads, weights, (rows, keys), sides, gold, width, title, attention.grid.shape[1])


def _heat_maps(
    heads: Sequence[Head], weights: list[NDArray[np.float32]], tokens: tuple[_Tokens, _Tokens], sides: tuple[str, str],
    gold: Links, width: float, title: str, of_layer: int,
) -> Figure:  # fmt: skip
    rows, keys = tokens
    down, across = weights[0].shape

    def pitch_of(columns: int) -> float:
        room = (width - rows.width - 0.3) / columns - 0.05
        highest = shared.LONGEST / math.ceil(len(heads) / columns) - _TITLED
        pitch = min(room / across, _LARGEST_CELL, highest / down)
        return pitch if pitch >= min(_SMALLEST_PANEL / across, _LARGEST_CELL) else 0

    columns, pitch = _most_columns(pitch_of, len(heads), of_layer, width)
    figure, axes, _ = shared.panels(len(heads), width, sides[1], sides[0], columns)
    top = _round_up(max(float(values.max()) for values in weights))
    for ax, head, values in zip(axes, heads, weights, strict=True):
        shown = shared.heat(ax, values, cmap=shared.COLORS, vmin=0, vmax=top)
        ax.set_title(f"head {head.name}" if pitch * across > 0.6 else head.name)
        for cut in rows.cuts:
            ax.axhline(cut, color=shared.FAINT, linewidth=0.5)
        for cut in keys.cuts:
            ax.axvline(cut, color=shared.FAINT, linewidth=0.5)
        for row, key in gold:
            ax.add_patch(Rectangle((key - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=_GOLD, linewidth=1))
    notes = [rows.name(ax.yaxis, pitch) for ax in axes[::columns]]
    for ax in axes[-columns:]:
        notes.append(keys.name(ax.xaxis, pitch))
        ax.xaxis.set_tick_params(rotation=90)
    shared.caption(figure, title, *dict.fromkeys(notes))
    shared.color_bar(figure, axes, shown, "weight")
    shared.fit_height(figure, axes[0], lambda _: pitch * down, axes)
    return figure


def _lines(
    heads: Sequence[Head], weights: list[NDArray[np.float32]], tokens: tuple[_Tokens, _Tokens], sides: tuple[str, str],
    gold: Links, width: float, title: str, of_layer: int,
) -> Figure:  # fmt: skip
    rows, keys = tokens
    longer = max(weights[0].shape)

    def pitch_of(columns: int) -> float:
        between = (width - 0.1) / columns - rows.width - keys.width - 0.2
        highest = shared.LONGEST / math.ceil(len(heads) / columns) - _TITLED
        return min(_LINE, highest / longer) if between >= _BETWEEN else 0

    columns, pitch = _most_columns(pitch_of, len(heads), of_layer, width)
    figure, axes, _ = shared.panels(len(heads), width, columns=columns)
    top = _round_up(max(float(values.max()) for values in weights))
    cut = max(int((values >= _LEAST_LINE).sum()) for values in weights) > _MOST_LINES
    for ax, head, values in zip(axes, heads, weights, strict=True):
        _draw_lines(ax, values / top, _LEAST_LINE / top)
        for query, key in gold:
            ax.plot((0, 1), (query, key), color=_GOLD, linestyle=":", linewidth=1)
        right = ax.twinx()
        ax.set(xlim=(0, 1), ylim=(longer - 0.5, -0.5), xticks=[])
        right.set(ylim=(longer - 0.5, -0.5))
        notes = rows.name(ax.yaxis, pitch), keys.name(right.yaxis, pitch)
        ax.yaxis.set_tick_params(labelleft=True)
        ax.set_title(head.name, loc="center")
        for side, name in zip(("left", "right"), sides, strict=True):
            ax.set_title(name, loc=side, color=shared.FAINT)  # type: ignore[arg-type]
        for spines in (ax.spines, right.spines):
            spines[:].set_visible(False)
    beyond = f" and beyond the {_MOST_LINES} strongest of a head" if cut else ""
    shared.caption(figure, title, f"Weights below {_LEAST_LINE}{beyond} are not drawn.", *dict.fromkeys(notes))
    parts = {part: f"weight {part * top:.2g}" for part in (0.25, 0.5, 1)}
    shared.legend(figure, [Line2D([], [], label=text, color=_shade(part), linewidth=_thickness(part))
                           for part, text in parts.items()])  # fmt: skip
    shared.fit_height(figure, axes[0], lambda _: pitch * longer)
    return figure


def _draw_lines(ax: Axes, strength: NDArray[np.float32], least: float) -> None:
    """Lines from queries to keys, the strongest on top, darker and wider by their strength in [0, 1]."""
    order = np.argsort(strength, axis=None, kind="stable")[-_MOST_LINES:]
    queries, keys = np.unravel_index(order[strength.flat[order] >= least], strength.shape)
    strengths = strength[queries, keys].tolist()
    segments = [((0.0, float(query)), (1.0, float(key))) for query, key in zip(queries, keys, strict=True)]
    colors = [_shade(s) for s in strengths]
    ax.add_collection(LineCollection(segments, colors=colors, linewidths=[_thickness(s) for s in strengths]))


def _shade(strength: float) -> tuple[float, float, float, float]:
    return to_rgba(RAMP[6], min(strength, 1.0))


def _thickness(strength: float) -> float:
    return 0.3 + 1.2 * strength


def _most_columns(pitch_of: Callable[[int], float], count: int, of_layer: int, width: float) -> tuple[int, float]:
    """The most columns with every token named, or every second or fourth; if possible of whole layers. And their pitch.

    `pitch_of` is how high a token is in so many columns, in inches; 0 where heads have no room.
    Raises: SelectionError if they have room in no columns.
    """
    pitches = {columns: pitch for columns in range(1, count + 1) if (pitch := pitch_of(columns)) > 0}
    if not pitches:
        what, remedy = f"{count} heads have no room in a picture", "name fewer of them, or give a larger --width"
        raise SelectionError(f"{what} {width:g} inches wide", remedy)
    aligned = {columns: pitch for columns, pitch in pitches.items() if count % of_layer == 0 == of_layer % columns}
    return max((aligned or pitches).items(), key=lambda item: ([item[1] >= _NAMED / step for step in (1, 2, 4)], item))


def _round_up(value: float) -> float:
    """The top of a scale: the next twentieth, or the value itself where it is one but for rounding; never less.

    >>> _round_up(0.71), _round_up(1.0), _round_up(0.0)
    (0.75, 1.0, 0.05)
    >>> fifth = float(np.float32(0.2))  # 0.2000000030
    >>> _round_up(fifth) == fifth
    True
    """
    return max(math.ceil(round(value * 20, 6)) / 20, value, 0.05)
