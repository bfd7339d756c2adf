"""What heads are worth to a model: its loss without them, and without other heads."""

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
from attnscan.results.schemas import (
    MODEL_COLUMN,
    Column,
    Table,
)
from attnscan.results.signature import Signature, describe, signed_frame
from attnscan.text import counted

SIGNIFICANCE = 0.05
"""The largest p by rank at which a set of heads is said to cost more than others."""
_ABOUT = ("replace", "draws", "chosen_by", "choosing_pairs", "measured_pairs")
"""Fields of an ablation that tables hold as well."""
_ROUNDING = 1e-6
"""Losses that differ by less, as a share of themselves, are equal: batching changes them so."""


ABLATION_TABLE = Table(
    "ablate",
    "a set of heads, by one measure",
    (
        MODEL_COLUMN,
        Column("set", "the set: a pattern, or the heads' names", "text", is_key=True),
        Column("heads", "how many heads it has", "integer", is_key=True),
        Column("measure", "what was measured", "text", is_key=True),
        Column("intact", "of the model as it is"),
        Column("ablated", "with the set switched off"),
        Column("control", "mean with a control switched off instead"),
        Column("effect", "`ablated` less `control`"),
        Column("se", "standard error of the effect"),
        Column("spread", "standard deviation over the controls"),
        Column("controls", "how many controls: sets of as many heads of these layers", "integer"),
        Column("rank", "the set's place by loss among itself and its controls", "integer"),
        Column("p", "`rank` / (`controls` + 1)"),
        Column("overlap", "share of a control's heads that are in the set"),
        Column("n", "words, or answers", "integer"),
        Column("pairs", "pairs that were measured", "integer"),
        Column("conclusion", "what the rank says", "text"),
    ),
)


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
    def is_single(self) -> bool:
        """Whether it is a single head, named as itself."""
        return len(self.heads) == 1 and self.heads[0].name == self.name

    @property
    def overlap(self) -> float:
        """The share of each control's heads that belong to the set itself.

        In [0, 1]; NaN without controls.
        """
        if not self.controls:
            return math.nan
        return len({*self.heads} & {*self.controls[0]}) / len(self.heads)


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
    interval: float
    """Half the width of the effect's 95 % interval.

    By t with one degree of freedom less than there are distinct pairs."""
    rank: float
    """The set's place by loss among itself and its controls, from 1; equal ones come first."""
    p: float
    """How probable such a rank is if the set is like its controls (Phipson and Smyth 2010)."""
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
        clusters: int,
    ) -> Effect:
        """Compute it from the values of the intact model, without the set, and without controls.

        `clusters` are the distinct ones of the pairs.
        """
        intact, ablated, *controls = values
        if not off.heads:
            ablated = math.nan
        sign = -1 if quantity.larger_is_better else 1
        control = float(np.mean(controls)) if controls else math.nan
        spread = float(np.std(controls, ddof=1)) if len(controls) > 1 else math.nan
        effect = ablated - control
        if math.isnan(effect):
            rank = math.nan
        else:
            least = sign * ablated - _ROUNDING * abs(ablated)
            rank = 1 + sum(sign * value >= least for value in controls)
        return cls(
            set=off,
            quantity=quantity,
            intact=intact,
            ablated=ablated,
            others=tuple(controls),
            control=control,
            spread=spread,
            effect=effect,
            se=se,
            loss=sign * effect,
            interval=float(half_width(se, clusters)),
            rank=rank,
            p=rank / (len(controls) + 1),
            n=n,
            pairs=pairs,
        )

    @property
    def leads(self) -> bool:
        """Whether it costs more than others by its rank.

        Or more than each of them, where these are too few to tell.
        """
        return self.rank == 1 or self.p <= SIGNIFICANCE

    @property
    def conclusion(self) -> str:
        """What the rank says; empty for NaN.

        How far the effect is from zero is said, too, and does not decide.
        """
        if math.isnan(self.rank):
            return ""
        controls = len(self.others)
        reasons = f"rank {self.rank:.0f} of {controls + 1}"
        if self.se > 0:
            side = "above" if self.loss > 0 else "below"
            reasons = f"{abs(self.loss) / self.se:.1f} errors {side} zero, {reasons}"
        if self.p <= SIGNIFICANCE:
            return f"costs more than other heads ({reasons})"
        if self.rank == 1:
            reasons += f"; {counted(controls, 'control')} cannot tell more"
        return f"is not seen to cost more than other heads ({reasons})"


@dataclass(frozen=True)
class Ablation:
    """The effects of switching off sets of heads."""

    effects: tuple[Effect, ...]  # quantity by quantity, set by set
    grid: Grid  # the model's heads
    replace: Replacement
    """What takes the place of a switched-off head's output: `zero`, or its `mean`."""
    draws: int  # the most controls that a set may have
    chosen_by: str  # how the sets were chosen, in a few words
    choosing_pairs: int  # pairs by which a scan chose the sets; 0 where heads were named
    measured_pairs: int  # the other pairs, on which the sets were measured
    signature: Signature  # where the result comes from: model, versions, device, input

    __repr__ = describe

    @property
    def by_quantity(self) -> dict[Quantity, list[Effect]]:
        """The effects by each quantity that was measured."""
        by_quantity: dict[Quantity, list[Effect]] = {}
        for effect in self.effects:
            by_quantity.setdefault(effect.quantity, []).append(effect)
        return by_quantity

    @property
    def alone(self) -> bool:
        """Whether every set is a single head, named as itself."""
        return all(effect.set.is_single for effect in self.effects)

    def to_frame(self) -> pd.DataFrame:
        """One row for each set and quantity."""
        rows: list[dict[str, Any]] = []
        members = {}
        possible_controls = {}
        for effect in self.effects:
            heads = effect.set
            members[heads.name] = ",".join(head.name for head in heads.heads)
            possible_controls[heads.name] = heads.possible
            rows.append(
                {
                    **vars(effect),
                    "set": heads.name,
                    "heads": len(heads.heads),
                    "measure": effect.quantity.name,
                    "controls": len(effect.others),
                    "overlap": heads.overlap,
                    "conclusion": effect.conclusion,
                }
            )
        about: dict[str, Any] = {name: getattr(self, name) for name in _ABOUT}
        about |= {"members": members, "possible_controls": possible_controls}
        frame = signed_frame(rows, self.signature, ABLATION_TABLE, **about)
        in_order = [column.name for column in ABLATION_TABLE.columns]
        return frame[in_order].astype({"rank": "Int64"})
