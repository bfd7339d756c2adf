"""The screen of `ablate`: what heads are worth, quantity by quantity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.ablation import LEVEL, Ablation, Effect, HeadSet, Quantity
from attnscan.results.grid import AttentionKind
from attnscan.results.terms import counted
from attnscan.views.palette import COLORS
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import (
    color_of,
    decimals,
    model_line,
    named,
    wrapped,
)

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
        blocks += ["", *_table(ablation, quantity, width)]
    return Group(*blocks, "", *(line for note in _notes(ablation) for line in wrapped(note, width)))


def _table(ablation: Ablation, quantity: Quantity, width: int) -> Iterator[RenderableType]:
    effects = ablation.of(quantity)
    first = effects[0]
    intact = "" if np.isnan(first.intact) else f"  intact {decimals(first.intact)}"
    yield Text.assemble((quantity.name, "bold"), f"  {quantity.unit}{intact}", (f"  n {first.n:,}", "dim"))
    if not first.n:
        yield Text("nothing to measure it by", style="dim")
        return
    shown = sorted(effects, key=lambda effect: (np.isnan(effect.loss), -effect.loss)) if ablation.alone else effects
    yield _rows(shown[: _SHOWN_SINGLE if ablation.alone else None], effects, width)
    if ablation.alone and len(shown) > _SHOWN_SINGLE:
        yield Text(f"and {counted(len(shown) - _SHOWN_SINGLE, 'other head')}; --csv lists all", style="dim")
    for effect in shown if len(shown) <= _CONCLUDED else ():
        if effect.conclusion:
            yield from wrapped(f"{effect.set.name} {effect.conclusion}.", width)


def _rows(shown: list[Effect], effects: list[Effect], width: int) -> RenderableType:
    """A row for each effect that is shown, with a bar where its rank says that it costs more and there is room."""
    most = max((abs(effect.loss) for effect in effects if not np.isnan(effect.loss)), default=0.0)
    digits = 3 if most >= _SMALL else 5
    columns = [Column("switched off"), *(Column(name, ">", drop) for name, drop in _NUMBERS.items())]
    rows = []
    for effect in shown:
        bar = abs(effect.loss) / most if effect.leads else 0.0, color_of(effect.set.name)
        rows.append([*_cells(effect, digits), bar])
    return Table([*columns, Column("", "bar")], rows).screen(width, apart=2 if width >= _WIDE else 1)


def _cells(effect: Effect, digits: int) -> tuple[RenderableType, ...]:
    name = named(effect.set.name) if effect.set.name in COLORS else Text(effect.set.name[:18])
    count = str(len(effect.set.heads))
    if not effect.set.heads:
        return (name, count, *[""] * 3, Text("no head", style="dim"), *[""] * 3)
    if not effect.set.controls:
        return (name, count, f"{effect.ablated:.{digits}f}", "", "", Text("no others", style="dim"), *[""] * 3)
    numbers = zip((effect.ablated, effect.control, effect.spread, effect.effect, effect.se), "---+-", strict=True)
    texts = ["" if np.isnan(value) else f"{value:{sign}.{digits}f}" for value, sign in numbers]
    rank = f"{effect.rank:.0f}/{effect.controls + 1}"
    return (name, count, *texts, rank, f"{effect.p:.3f}" if effect.p >= 0.001 else "<.001")


def _notes(ablation: Ablation) -> Iterator[str]:
    """What the columns are, and by which pairs."""
    sets = list(dict.fromkeys(effect.set for effect in ablation.effects))
    how = "their output at zero" if ablation.replace == "zero" else "their output at its mean"
    falls = any(quantity.larger_is_better for quantity in ablation.quantities)
    sense = " Of accuracy, less is a loss." if falls else ""
    yield (
        f"without: with these heads switched off ({how}). others: with as many other heads of the same layers, the "
        f"mean of {_controls(sets, ablation.draws)}; spread: their standard deviation. effect: the difference, ± its "
        f"standard error over pairs and controls.{sense} rank: 1 if no other set costs as much; p = rank / "
        f"(controls + 1). No bar: p above {LEVEL:g}, and another set costs as much."
    )
    overlaps = any(heads.overlap > 0 for heads in sets)
    shared = " Where a layer has too few others, the rest is taken from the set itself." if overlaps else ""
    if not ablation.choosing_pairs:
        yield f"With --heads, labels are unknown: the others may follow any pattern.{shared}"
        return
    of_encoder = ablation.grid.kind is AttentionKind.ONLY
    asked = (
        ""
        if ablation.signature.predictive != "off" or not of_encoder
        else " predictive was not measured, and takes no label."
    )
    yield (
        f"Heads of a pattern: by {ablation.chosen_by}, on {counted(ablation.choosing_pairs, 'pair')}; measured on the "
        f"other {ablation.measured_pairs:,}. The others leave out heads labelled with another "
        f"pattern, delimiter excepted.{shared}{asked}"
    )


def _controls(sets: list[HeadSet], draws: int) -> str:
    """How many controls there are, in words."""
    compared = [heads for heads in sets if heads.controls]
    complete = {heads.name: heads.possible for heads in compared if heads.has_all_controls}
    if complete and len(complete) == len(compared) and len(set(complete.values())) == 1:
        return f"all {counted(next(iter(complete.values())), 'possible set')}"
    drawn = f"{draws} distinct sets drawn at random"
    fewer = ", ".join(f"{name} has all {possible} possible" for name, possible in complete.items())
    return f"{drawn} ({fewer})" if fewer else drawn
