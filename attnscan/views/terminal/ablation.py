"""The screen of `ablate`: what heads are worth, quantity by quantity."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.ablation import SIGNIFICANCE, Ablation, Effect, Quantity
from attnscan.results.grid import AttentionKind
from attnscan.text import counted
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import (
    Column,
    color_of,
    has_bars,
    model_line,
    named,
    number,
    table_of,
    wrapped,
)

_DROP = {
    "heads": 3,
    "without": 2,
    "others": 4,
    "spread": 6,
    "effect": 0,
    "± se": 0,
    "rank": 5,
    "p": 1,
}
"""The columns of numbers, and which go first where the screen is narrow."""
_WIDE = 100  # on a narrower screen, columns are one space apart
_SHOWN_SINGLE = 20
_CONCLUDED = 7  # sets: of more, the table alone tells
_COLUMNS = [
    Column("switched off"),
    *(Column(name, ">", drop) for name, drop in _DROP.items()),
    Column("", "bar"),
]


def ablation_view(ablation: Ablation, width: int) -> RenderableType:
    """A table for each quantity: every set of heads, or of single heads those that matter most."""
    signature = ablation.signature
    blocks: list[RenderableType] = [model_line(signature, f"  {signature.counts}")]
    apart = 2 if width >= _WIDE else 1
    with_bars = False
    for quantity, effects in ablation.by_quantity.items():
        shown = len(effects)
        if ablation.alone:
            effects = sorted(effects, key=lambda effect: (np.isnan(effect.loss), -effect.loss))
            shown = _SHOWN_SINGLE
        rows = _rows(effects)[:shown]
        with_bars = with_bars or has_bars(_COLUMNS, rows, width, apart=apart)
        table = table_of(_COLUMNS, rows, width, apart=apart)
        blocks += ["", *_quantity(quantity, effects, table, width)]
    blocks.append("")
    for note in _notes(ablation, with_bars=with_bars):
        blocks += wrapped(note, width)
    return Group(*blocks)


def _rows(effects: Sequence[Effect]) -> list[list[Any]]:
    """A row for each effect, with a bar where its rank says that it costs more."""
    most = np.nanmax([0.0, *(abs(effect.loss) for effect in effects)])
    digits = 3 if most >= 0.1 else 5
    rows = []
    for effect in effects:
        bar = abs(effect.loss) / most if effect.leads and most else 0.0
        rows.append([*_cells(effect, digits), (bar, color_of(effect.set.name))])
    return rows


def _quantity(
    quantity: Quantity, effects: Sequence[Effect], table: Table, width: int
) -> Iterator[RenderableType]:
    """What a quantity is without heads, the table of effects, and what follows of few of them."""
    intact = number(effects[0].intact, 3) or "–"
    n = effects[0].n
    yield Text.assemble(
        (quantity.name, "bold"), f"  {quantity.unit}  intact {intact}", (f"  n {n:,}", "dim")
    )
    if not n:
        missing = ""
        if quantity.name == "classifier-accuracy":
            missing = ": no pair has a class in a column 'label' or 'gold_label'"
        yield Text(f"nothing to measure it by{missing}", style="dim")
        return
    yield table
    if table.row_count < len(effects):
        others = counted(len(effects) - table.row_count, "other head")
        yield Text(f"and {others}; --csv lists all", style="dim")
    for effect in effects if len(effects) <= _CONCLUDED else ():
        if effect.conclusion:
            yield from wrapped(f"{effect.set.name} {effect.conclusion}.", width)


def _cells(effect: Effect, digits: int) -> list[RenderableType]:
    """The set's name, and its numbers with so many decimals; what is not known is blank."""
    off = effect.set
    name = named(off.name) if off.name in COLORS else off.name[:18]
    values = (effect.ablated, effect.control, effect.spread)
    cells: list[Any] = [name, str(len(off.heads)), *(number(value, digits) for value in values)]
    if not off.controls:
        return [*cells, Text("no others" if off.heads else "no head", "dim"), "", "", ""]
    difference = "" if np.isnan(effect.effect) else f"{effect.effect:+.{digits}f}"
    rank = f"{effect.rank:.0f}/{len(off.controls) + 1}"
    p = f"{effect.p:.3f}" if effect.p >= 0.001 else "<.001"
    return [*cells, difference, number(effect.se, digits), rank, p]


def _notes(ablation: Ablation, *, with_bars: bool) -> Iterator[str]:
    """What the columns are, bars if the screen has room for them, and by which pairs."""
    compared = [effect.set for effect in ablation.effects if effect.set.controls]
    controls = f"{ablation.draws} distinct sets drawn at random"
    if all(len(heads.controls) == heads.possible for heads in compared):
        controls = "all possible sets"
    replacement = "its mean" if ablation.replace == "mean" else ablation.replace
    bars = ""
    if with_bars:
        bars = f" No bar: p above {SIGNIFICANCE:g}, and another set costs as much."
    names = {quantity.name for quantity in ablation.by_quantity}
    vectors = ""
    if "cls" in names:
        vectors = "cls: how far the last state of [CLS] moves, as 1 − cosine. "
    falls = any(quantity.larger_is_better for quantity in ablation.by_quantity)
    yield (
        f"{vectors}without: with these heads switched off (their output at {replacement}). "
        f"others: with as many other heads of the same layers, the mean of {controls}; spread: "
        "their standard "
        "deviation. effect: the difference, ± its standard error over pairs and controls."
        f"{' Of accuracy, less is a loss.' if falls else ''} rank: 1 if no other set costs as "
        f"much; p = rank / (controls + 1).{bars}"
    )
    shared = ""
    if any(heads.overlap > 0 for heads in compared):
        shared = " Where a layer has too few others, the rest is taken from the set itself."
    if not ablation.choosing_pairs:
        yield f"With --heads, labels are unknown: the others may follow any pattern.{shared}"
        return
    unasked = ""
    if ablation.signature.predictive == "off" and ablation.grid.kind is AttentionKind.ONLY:
        unasked = " predictive was not measured, and takes no label."
    yield (
        f"Heads of a pattern: by {ablation.chosen_by}, on "
        f"{counted(ablation.choosing_pairs, 'pair')}; measured on the other "
        f"{ablation.measured_pairs:,}. The others leave out heads labelled with another pattern, "
        f"delimiter excepted.{shared}{unasked}"
    )
