"""What heads are worth to a model: its loss without them, compared with its loss without other heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscan.results.choices import Replacement
from attnscan.results.grid import Grid, Head
from attnscan.results.intervals import half_width
from attnscan.results.lazy import pd
from attnscan.results.signature import Signature, describe, signed_frame
from attnscan.text import counted

SIGNIFICANCE = (
    0.05  # the largest p by rank at which a set of heads is said to cost more than others
)
_FRAME_COLUMNS = "model set heads measure intact ablated control effect se spread controls rank p overlap n pairs conclusion"
_ABOUT = "replace draws chosen_by choosing_pairs measured_pairs"  # fields of an ablation that tables hold as well
_ROUNDING = 1e-6  # losses that differ by less, as a share of themselves, are equal: batching alone changes them so much


@dataclass(frozen=True)
class Quantity:
    """What is measured of a model."""

    name: str
    unit: str
    larger_is_better: bool = False


@dataclass(frozen=True)
class HeadSet:
    """Heads that are switched off together."""

    name: str
    heads: tuple[Head, ...]
    controls: tuple[tuple[Head, ...], ...] = ()  # distinct sets of as many heads of the same layers
    possible: int = 0  # how many such sets there are

    @property
    def overlap(self) -> float:
        """The share of each control's heads that belong to the set itself, in [0, 1]; NaN without controls."""
        return (
            len({*self.heads} & {*self.controls[0]}) / len(self.heads)
            if self.controls
            else math.nan
        )


@dataclass(frozen=True)
class Effect:
    """What one set of heads is worth, by one quantity. NaN where nothing was measured."""

    set: HeadSet
    quantity: Quantity
    intact: float  # of the model as it is; 0 where the quantity is itself a change
    ablated: float  # with the heads switched off
    others: tuple[float, ...]  # with each of the set's controls switched off instead
    control: float  # the mean over the controls
    spread: float  # their standard deviation
    effect: float  # `ablated` minus `control`
    se: float  # its standard error, over pairs and controls
    loss: float  # the effect as a loss: above 0 if these heads are worth more than others
    interval: float  # half the width of the effect's 95 % interval, by t with `pairs` - 1 degrees of freedom
    rank: float  # the set's place by loss among itself and its controls, from 1; equal ones come first
    p: float  # how probable such a rank is if the set is no different from its controls, by Phipson and Smyth (2010)
    n: int  # words, or answers
    pairs: int

    @classmethod
    def of(
        cls,
        off: HeadSet,
        quantity: Quantity,
        values: Sequence[float],
        se: float,
        n: int,
        pairs: int,
    ) -> Effect:
        """Compute it from the `values` of the intact model, without the set, and without each of its controls."""
        intact, ablated, *controls = values
        ablated, sign = ablated if off.heads else math.nan, -1 if quantity.larger_is_better else 1
        control = float(np.mean(controls)) if controls else math.nan
        spread = float(np.std(controls, ddof=1)) if len(controls) > 1 else math.nan
        loss, least = sign * (ablated - control), sign * ablated - _ROUNDING * abs(ablated)
        rank = (
            math.nan if math.isnan(loss) else 1 + sum(sign * value >= least for value in controls)
        )
        numbers = (
            ablated - control,
            se,
            loss,
            float(half_width(se, pairs)),
            rank,
            rank / (len(controls) + 1),
        )
        return cls(
            off, quantity, intact, ablated, tuple(controls), control, spread, *numbers, n, pairs
        )

    @property
    def leads(self) -> bool:
        """Whether it costs more than others by its rank, or more than each of them where these are too few to tell."""
        return self.rank == 1 or self.p <= SIGNIFICANCE

    @property
    def conclusion(self) -> str:
        """What the rank says, and how far the effect is from zero, which does not decide; empty for NaN."""
        if math.isnan(self.rank):
            return ""
        side, controls = "above" if self.loss > 0 else "below", len(self.others)
        far = f"{abs(self.loss) / self.se:.1f} errors {side} zero, " if self.se > 0 else ""
        at = f"{far}rank {self.rank:.0f} of {controls + 1}"
        if self.p <= SIGNIFICANCE:
            return f"costs more than other heads ({at})"
        at += f"; {counted(controls, 'control')} cannot tell more" if self.rank == 1 else ""
        return f"is not seen to cost more than other heads ({at})"


@dataclass(frozen=True)
class Ablation:
    """The effects of switching off sets of heads."""

    effects: tuple[Effect, ...]  # quantity by quantity, set by set
    grid: Grid  # the model's heads
    replace: (
        Replacement  # what takes the place of a switched-off head's output: `zero`, or its `mean`
    )
    draws: int  # the most controls that a set may have
    chosen_by: str  # how the sets were chosen, in a few words
    choosing_pairs: int  # pairs by which a scan chose the sets; 0 where heads were named
    measured_pairs: int  # the other pairs, on which the sets were measured
    signature: Signature  # where the result comes from: model, versions, device, input

    __repr__ = describe

    @property
    def by_quantity(self) -> dict[Quantity, list[Effect]]:
        """The effects by each quantity that was measured."""
        quantities = dict.fromkeys(effect.quantity for effect in self.effects)
        return {
            quantity: [effect for effect in self.effects if effect.quantity == quantity]
            for quantity in quantities
        }

    @property
    def alone(self) -> bool:
        """Whether every set is a single head, named as itself."""
        return all(
            [effect.set.name] == [head.name for head in effect.set.heads] for effect in self.effects
        )

    def to_frame(self) -> pd.DataFrame:
        """One row for each set and quantity."""
        rows: list[dict[str, Any]] = []
        for effect in self.effects:
            of_set = {
                "heads": len(effect.set.heads),
                "controls": len(effect.others),
                "overlap": effect.set.overlap,
            }
            names = {"set": effect.set.name, "measure": effect.quantity.name}
            rows.append(vars(effect) | of_set | names | {"conclusion": effect.conclusion})
        sets = {effect.set.name: effect.set for effect in self.effects}
        members = {
            name: ",".join(head.name for head in heads.heads) for name, heads in sets.items()
        }
        about: dict[str, Any] = {name: getattr(self, name) for name in _ABOUT.split()} | {
            "members": members
        }
        about |= {"possible_controls": {name: heads.possible for name, heads in sets.items()}}
        return signed_frame(rows, self.signature, **about)[_FRAME_COLUMNS.split()].astype(
            {"rank": "Int64"}
        )
