"""The picture of what heads are worth: effects with their errors, or a grid of single heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnscan.results.ablation import Ablation, Effect
from attnscan.results.scores import FloatArray
from attnscan.views.palette import COLORS, letter
from attnscan.views.pictures import figure as shared
from attnscan.views.pictures.map import cell_size

_LOSS = COLORS["bag-of-words"]
_WORTH = LinearSegmentedColormap.from_list("worth", ["#ffffff", _LOSS])
_CONTROL = "#a8a8a8"
_ROW, _NEXT_LINE = 0.2, 0.13  # inches, of a set and of a further line of its name


def ablation_figure(ablation: Ablation, width: float) -> Figure:
    """A panel for each quantity: a row for each set or, where all sets are single heads, the layer x head grid."""
    return _grids(ablation, width) if ablation.alone else _rows(ablation, width)


def _rows(ablation: Ablation, width: float) -> Figure:
    by_quantity = ablation.by_quantity
    sets = [effect.set.name for effect in next(iter(by_quantity.values()))]
    names = [shared.wrapped(f"{letter(name)} {name}" if name in COLORS else name, 0.4 * width) for name in sets]
    room = width - 0.2 - max(shared.width_of(line) for name in names for line in name.split("\n"))
    figure = shared.new_figure(width)
    axes = figure.subplots(len(by_quantity), 1, squeeze=False)[:, 0]
    for ax, (quantity, effects) in zip(axes, by_quantity.items(), strict=True):
        sense = "less is a loss" if quantity.larger_is_better else "more is a loss"
        ax.set_title(shared.wrapped(f"{quantity.name}: effect in {quantity.unit}, ± 95 % ({sense})", room))
        ax.axvline(0, color=shared.FAINT, linewidth=0.5)
        for row, effect in enumerate(effects):
            _draw_effect(ax, row, effect)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.margins(x=0.1)
        ax.xaxis.set_major_locator(MaxNLocator(3))
        ax.grid(axis="x")
        ax.spines[["top", "right", "left"]].set_visible(False)
    shared.caption(figure, "Grey: the controls, less their mean.")
    high = sum(_ROW + _NEXT_LINE * name.count("\n") for name in names)
    shared.fit_height(figure, axes[0], lambda _: high)
    return figure


def _draw_effect(ax: Axes, row: int, effect: Effect) -> None:
    """An effect with its interval, and each of its controls; or why there is none."""
    if np.isnan(effect.effect):
        without = "not measured" if effect.set.controls else "no others in its layers"
        why = without if effect.set.heads else "no head"
        ax.annotate(why, (0, row), (4, 0), textcoords="offset points", va="center", color=shared.FAINT)
        return
    others = np.array(effect.others) - effect.control
    ax.plot(others, np.full(len(others), row), "|", color=_CONTROL, markersize=6, markeredgewidth=0.7)
    color = COLORS.get(effect.set.name, _LOSS)
    interval = None if np.isnan(effect.interval) else effect.interval
    ax.errorbar(effect.effect, row, None, interval, "s", color=color, markersize=3.5, elinewidth=0.8)


def _grids(ablation: Ablation, width: float) -> Figure:
    figure, axes, _ = shared.panels(len(ablation.by_quantity), width, "head", "layer", columns=1)
    cell = cell_size(ablation.grid, width)
    shared.check_heads_can_be_seen(cell, ablation.grid, width, "ablate --each")
    for ax, (quantity, effects) in zip(axes, ablation.by_quantity.items(), strict=True):
        values = worth_of(effects, ablation.grid.shape)
        most = float(np.nanmax(values, initial=0)) or 1.0
        shown = shared.heat(ax, values, 0.5, shared.RULE, cmap=_WORTH, vmin=0, vmax=most)
        shared.number_heads(ax, ablation.grid, cell, cell)
        ax.set_title(shared.wrapped(f"{quantity.name}: what each head is worth", width - 0.4))
        label = f"worth more than other heads ({quantity.unit})"
        shared.color_bar(figure, [ax], shown, shared.wrapped(label, width - 0.1))
    shared.caption(figure, "White: another head of its layer costs as much.")
    shared.fit_height(figure, axes[0], lambda _: ablation.grid.shape[0] * cell, axes)
    return figure


def worth_of(effects: Sequence[Effect], shape: tuple[int, int]) -> FloatArray:
    """Each head's worth, 0 where another of its layer costs as much. Shape: [layer, head]; NaN where unknown."""
    worth = np.full(shape, np.nan)
    for effect in effects:
        (head,) = effect.set.heads
        worth[head.place] = max(0.0, effect.loss) if effect.leads else 0 * effect.loss
    return worth
