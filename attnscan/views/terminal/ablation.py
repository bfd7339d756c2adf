"""The screen of `ablate`: what heads are worth, quantity by quantity."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.ablation import SIGNIFICANCE, Ablation, Effect, Quantity
from attnscan.results.grid import AttentionKind
from attnscan.text import counted
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import (
    Column,
    color_of,
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


def ablation_view(ablation: Ablation, width: int) -> RenderableType:
    """A table for each quantity: every set of heads, or of single heads those that matter most."""
    blocks: list[RenderableType] = [
        model_line(ablation.signature, f"  {ablation.signature.counts}")
    ]
    for quantity, effects in ablation.by_quantity.items():
        if ablation.alone:
            effects = sorted(effects, key=lambda effect: (np.isnan(effect.loss), -effect.loss))
        blocks += [
            "",
            *_quantity(quantity, effects, _SHOWN_SINGLE if ablation.alone else len(effects), width),
        ]
    return Group(*blocks, "", *(line for note in _notes(ablation) for line in wrapped(note, width)))


def _quantity(
    quantity: Quantity, effects: list[Effect], count: int, width: int
) -> Iterator[RenderableType]:
    """A row for each of so many effects, with a bar where its rank says that it costs more and there is room."""
    intact, n = number(effects[0].intact, 3), effects[0].n
    yield Text.assemble(
        (quantity.name, "bold"), f"  {quantity.unit}  intact {intact or '–'}", (f"  n {n:,}", "dim")
    )
    if not n:
        missing = ": no pair has a class in a column 'label' or 'gold_label'" * (
            quantity.name == "classifier-accuracy"
        )
        yield Text(f"nothing to measure it by{missing}", style="dim")
        return
    most = np.nanmax([0.0, *(abs(effect.loss) for effect in effects)])
    bars = [abs(effect.loss) / most if effect.leads and most else 0.0 for effect in effects]
    rows = [
        [*_cells(effect, 3 if most >= 0.1 else 5), (bar, color_of(effect.set.name))]
        for effect, bar in zip(effects[:count], bars, strict=False)
    ]
    columns = [
        Column("switched off"),
        *(Column(name, ">", drop) for name, drop in _DROP.items()),
        Column("", "bar"),
    ]
    yield table_of(columns, rows, width, apart=2 if width >= _WIDE else 1)
    if count < len(effects):
        yield Text(
            f"and {counted(len(effects) - count, 'other head')}; --csv lists all", style="dim"
        )
    for effect in effects if len(effects) <= _CONCLUDED else ():
        if effect.conclusion:
            yield from wrapped(f"{effect.set.name} {effect.conclusion}.", width)


def _cells(effect: Effect, digits: int) -> list[RenderableType]:
    """The set's name, and its numbers with so many decimals; what is not known is blank."""
    off = effect.set
    cells: list[Any] = [
        named(off.name) if off.name in COLORS else off.name[:18],
        str(len(off.heads)),
    ]
    cells += [number(value, digits) for value in (effect.ablated, effect.control, effect.spread)]
    if not off.controls:
        return [*cells, Text("no others" if off.heads else "no head", "dim"), "", "", ""]
    difference = "" if np.isnan(effect.effect) else f"{effect.effect:+.{digits}f}"
    p = f"{effect.p:.3f}" if effect.p >= 0.001 else "<.001"
    return [
        *cells,
        difference,
        number(effect.se, digits),
        f"{effect.rank:.0f}/{len(off.controls) + 1}",
        p,
    ]


def _notes(ablation: Ablation) -> Iterator[str]:
    """What the columns are, and by which pairs."""
    compared = [effect.set for effect in ablation.effects if effect.set.controls]
    is_whole = all(len(heads.controls) == heads.possible for heads in compared)
    controls = (
        "all possible sets" if is_whole else f"{ablation.draws} distinct sets drawn at random"
    )
    falls = any(quantity.larger_is_better for quantity in ablation.by_quantity)
    yield (
        f"without: with these heads switched off (their output at {'its ' * (ablation.replace == 'mean')}"
        f"{ablation.replace}). others: with as many other heads of the same layers, the mean of {controls}; spread: "
        "their standard deviation. effect: the difference, ± its standard error over pairs and controls."
        f"{' Of accuracy, less is a loss.' * falls} rank: 1 if no other set costs as much; p = rank / (controls + 1). "
        f"No bar: p above {SIGNIFICANCE:g}, and another set costs as much."
    )
    overlap = any(heads.overlap > 0 for heads in compared)
    shared = " Where a layer has too few others, the rest is taken from the set itself." * overlap
    if not ablation.choosing_pairs:
        yield f"With --heads, labels are unknown: the others may follow any pattern.{shared}"
        return
    unasked = ablation.signature.predictive == "off" and ablation.grid.kind is AttentionKind.ONLY
    yield (
        f"Heads of a pattern: by {ablation.chosen_by}, on {counted(ablation.choosing_pairs, 'pair')}; measured on the "
        f"other {ablation.measured_pairs:,}. The others leave out heads labelled with another pattern, delimiter "
        f"excepted.{shared}{' predictive was not measured, and takes no label.' * unasked}"
    )
