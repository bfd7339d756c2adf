"""The screen of `ablate`: what heads are worth, quantity by quantity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.ablation import LEVEL, Ablation, Effect, Quantity
from attnscan.results.grid import AttentionKind
from attnscan.results.terms import counted
from attnscan.views.palette import COLORS
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import color_of, decimals, model_line, named, wrapped

_NUMBERS = {"heads": 3, "without": 2, "others": 4, "spread": 6, "effect": 0, "± se": 0, "rank": 5, "p": 1}
"""The columns of numbers, and which go first where the screen is narrow."""
_WIDE = 100  # on a narrower screen, columns are one space apart
_SMALL = 0.1  # effects below this are shown with more decimals
_SHOWN_SINGLE = 20
_CONCLUDED = 7  # sets: of more, the table alone tells


def ablation_view(ablation: Ablation, width: int) -> RenderableType:
    """A table for each quantity: every set of heads, or of single heads those that matter most."""
    blocks: list[RenderableType] = [model_line(ablation.signature, f"  {ablation.signature.counts}")]
    for quantity in ablation.quantities:
        blocks += ["", *_quantity(ablation, quantity, width)]
    return Group(*blocks, "", *(line for note in _notes(ablation) for line in wrapped(note, width)))


def _quantity(ablation: Ablation, quantity: Quantity, width: int) -> Iterator[RenderableType]:
    """A row for each effect that is shown, with a bar where its rank says that it costs more and there is room."""
    effects = ablation.of(quantity)
    first = effects[0]
    intact = "" if np.isnan(first.intact) else f"  intact {decimals(first.intact)}"
    yield Text.assemble((quantity.name, "bold"), f"  {quantity.unit}{intact}", (f"  n {first.n:,}", "dim"))
    if not first.n:
        yield Text("nothing to measure it by", style="dim")
        return
    if ablation.alone:
        effects = sorted(effects, key=lambda effect: (np.isnan(effect.loss), -effect.loss))
    shown = effects[: _SHOWN_SINGLE if ablation.alone else None]
    most = np.nanmax([0.0, *(abs(effect.loss) for effect in effects)])
    columns = [Column("switched off"), *(Column(name, ">", drop) for name, drop in _NUMBERS.items()), Column("", "bar")]
    rows = []
    for effect in shown:
        bar = abs(effect.loss) / most if effect.leads and most else 0.0, color_of(effect.set.name)
        rows.append([*_cells(effect, 3 if most >= _SMALL else 5), bar])
    yield Table(columns, rows).screen(width, apart=2 if width >= _WIDE else 1)
    if len(shown) < len(effects):
        yield Text(f"and {counted(len(effects) - len(shown), 'other head')}; --csv lists all", style="dim")
    for effect in effects if len(effects) <= _CONCLUDED else ():
        if effect.conclusion:
            yield from wrapped(f"{effect.set.name} {effect.conclusion}.", width)


def _cells(effect: Effect, digits: int) -> list[RenderableType]:
    name = named(effect.set.name) if effect.set.name in COLORS else Text(effect.set.name[:18])
    cells: list[RenderableType] = [name, str(len(effect.set.heads))]
    if not effect.set.controls:
        why = Text("no others" if effect.set.heads else "no head", style="dim")
        return [*cells, f"{effect.ablated:.{digits}f}" if effect.set.heads else "", "", "", why, "", "", ""]
    for value, sign in zip(
        (effect.ablated, effect.control, effect.spread, effect.effect, effect.se), "---+-", strict=True
    ):
        cells.append("" if np.isnan(value) else f"{value:{sign}.{digits}f}")
    p = f"{effect.p:.3f}" if effect.p >= 0.001 else "<.001"
    return [*cells, f"{effect.rank:.0f}/{effect.controls + 1}", p]


def _notes(ablation: Ablation) -> Iterator[str]:
    """What the columns are, and by which pairs."""
    sets = list(dict.fromkeys(effect.set for effect in ablation.effects))
    how = "their output at zero" if ablation.replace == "zero" else "their output at its mean"
    falls = any(quantity.larger_is_better for quantity in ablation.quantities)
    compared = [heads for heads in sets if heads.controls]
    complete = {heads.name: heads.possible for heads in compared if heads.has_all_controls}
    if len(complete) == len(compared) and len(set(complete.values())) == 1:
        controls = f"all {counted(compared[0].possible, 'possible set')}"
    else:
        fewer = ", ".join(f"{name} has all {possible} possible" for name, possible in complete.items())
        controls = f"{ablation.draws} distinct sets drawn at random{f' ({fewer})' if fewer else ''}"
    yield (
        f"without: with these heads switched off ({how}). others: with as many other heads of the same layers, the "
        f"mean of {controls}; spread: their standard deviation. effect: the difference, ± its "
        f"standard error over pairs and controls.{' Of accuracy, less is a loss.' if falls else ''} rank: 1 if no "
        f"other set costs as much; p = rank / (controls + 1). No bar: p above {LEVEL:g}, and another set costs as much."
    )
    overlaps = any(heads.overlap > 0 for heads in sets)
    shared = " Where a layer has too few others, the rest is taken from the set itself." if overlaps else ""
    if not ablation.choosing_pairs:
        yield f"With --heads, labels are unknown: the others may follow any pattern.{shared}"
        return
    unasked = ablation.signature.predictive == "off" and ablation.grid.kind is AttentionKind.ONLY
    asked = " predictive was not measured, and takes no label." if unasked else ""
    yield (
        f"Heads of a pattern: by {ablation.chosen_by}, on {counted(ablation.choosing_pairs, 'pair')}; measured on the "
        f"other {ablation.measured_pairs:,}. The others leave out heads labelled with another "
        f"pattern, delimiter excepted.{shared}{asked}"
    )
