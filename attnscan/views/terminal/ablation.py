"""The screen of `ablate`: what heads are worth, quantity by quantity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.ablation import Ablation, Effect, Quantity
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import color_of, columns, decimals, model_line, named, wrapped

_BEFORE_BAR, _NUMBERS = 52, 4  # columns but for the decimals of four numbers
_SMALL = 0.1  # effects below this are shown with more decimals
_SHOWN_SINGLE = 20


def ablation_view(found: Ablation, width: int) -> RenderableType:
    """A table for each quantity: every set of heads, or of single heads those that matter most."""
    blocks: list[RenderableType] = [model_line(found.signature, f"  {found.signature.counts}")]
    for quantity in found.quantities:
        blocks += ["", *_table(found, quantity, width)]
    return Group(*blocks, "", *wrapped(_note(found), width))


def _table(found: Ablation, quantity: Quantity, width: int) -> Iterator[RenderableType]:
    effects = found.of(quantity)
    first = effects[0]
    intact = "" if np.isnan(first.intact) else f"  intact {decimals(first.intact)}"
    yield Text.assemble((quantity.name, "bold"), f"  {quantity.unit}{intact}", (f"  n {first.n:,}", "dim"))
    if not first.n:
        yield Text("nothing to measure it by", style="dim")
        return
    grid = columns(("switched off",), ("heads", "without", "others", "effect", "± se"), ("",))
    shown = sorted(effects, key=lambda effect: (np.isnan(effect.loss), -effect.loss)) if found.alone else effects
    most = max((abs(effect.loss) for effect in effects if not np.isnan(effect.loss)), default=0.0)
    for effect in shown[: _SHOWN_SINGLE if found.alone else None]:
        grid.add_row(*_row(effect, most, width))
    yield grid
    if found.alone and len(shown) > _SHOWN_SINGLE:
        yield Text(f"and {len(shown) - _SHOWN_SINGLE} heads that matter less; --csv lists all", style="dim")


def _row(effect: Effect, most: float, width: int) -> tuple[RenderableType, ...]:
    name = named(effect.set.name) if effect.set.name in COLORS else Text(effect.set.name[:18])
    count, digits = str(len(effect.set.heads)), 3 if most >= _SMALL else 5
    if not effect.set.heads:
        return (name, count, "", "", Text("no head", style="dim"), "", "")
    if not effect.set.controls:
        return (name, count, f"{effect.ablated:.{digits}f}", "", Text("no others", style="dim"), "", "")
    numbers = (effect.ablated, effect.control, effect.effect, effect.se)
    texts = [f"{value:{sign}.{digits}f}" for value, sign in zip(numbers, ("", "", "+", ""), strict=True)]
    room = max(0, width - _BEFORE_BAR - _NUMBERS * digits)
    length = round(room * abs(effect.loss) / most) if most and not np.isnan(effect.loss) else 0
    bar = Text(("█" if effect.loss > 0 else "░") * length, style=color_of(effect.set.name))
    return (name, count, *("" if "nan" in text else text for text in texts), bar)


def _note(found: Ablation) -> str:
    how = "their output at zero" if found.by == "zero" else "their output at its mean"
    overlaps = any(effect.set.overlap > 0 for effect in found.effects)
    shared = " Where a layer has too few others, some of these heads are among them." if overlaps else ""
    falls = any(quantity.larger_is_better for quantity in found.quantities)
    sense = " Of accuracy, less is a loss." if falls else ""
    chosen = "" if found.chosen_by == "by name" else f" Heads of a pattern: by {found.chosen_by}."
    return (
        f"without: with these heads switched off ({how}). others: with as many random heads of the same layers, "
        f"mean of {found.draws} draws. effect: the difference.{sense}{shared}{chosen}"
    )
