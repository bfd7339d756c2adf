"""What heads are worth to a model: what it loses without them, beside what it loses without others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnscan.results.grid import Grid, Head
from attnscan.results.intervals import half_width
from attnscan.results.shown import lines
from attnscan.results.signature import Signature
from attnscan.results.terms import Replacement, counted

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05
"""The largest p by rank at which a set of heads is said to cost more than others."""
_ROUNDING = 1e-6
"""Losses that differ by less, as a share of themselves, are equal: so much depends on how inputs were batched."""


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
    controls: tuple[tuple[Head, ...], ...] = ()
    """Distinct sets of as many heads of the same layers; none where no layer has others."""
    possible: int = 0
    """How many such sets there are."""

    @property
    def has_all_controls(self) -> bool:
        """Whether every possible control is there, so that none was left to chance."""
        return 0 < self.possible == len(self.controls)

    @property
    def overlap(self) -> float:
        """The share of a control's heads that belong to the set itself, in [0, 1]; NaN without controls."""
        if not self.controls:
            return float("nan")
        return len(set(self.heads) & set(self.controls[0])) / len(self.heads)  # the same in every control


@dataclass(frozen=True)
class Effect:
    """What one set of heads is worth, by one quantity. NaN where nothing was measured."""

    set: HeadSet
    quantity: Quantity
    intact: float
    """Of the model as it is; 0 where the quantity is itself a change."""
    ablated: float
    """With the heads switched off."""
    others: tuple[float, ...]
    """With each of the set's controls switched off instead."""
    se: float
    """The effect's standard error, over pairs and controls."""
    n: int
    """Words, or answers."""
    pairs: int

    @property
    def controls(self) -> int:
        """How many controls there are, all distinct."""
        return len(self.others)

    @property
    def control(self) -> float:
        """The mean over the controls; NaN without."""
        return float(np.mean(self.others)) if self.others else float("nan")

    @property
    def spread(self) -> float:
        """The standard deviation over the controls; NaN below two."""
        return float(np.std(self.others, ddof=1)) if self.controls > 1 else float("nan")

    @property
    def effect(self) -> float:
        """`ablated` minus `control`."""
        return self.ablated - self.control

    @property
    def loss(self) -> float:
        """The effect as a loss: above 0 if these heads are worth more than others."""
        return -self.effect if self.quantity.larger_is_better else self.effect

    @property
    def interval(self) -> float:
        """Half the width of the effect's 95 % interval, by t with `pairs` - 1 degrees of freedom; NaN below two."""
        return float(half_width(self.se, self.pairs))

    @property
    def rank(self) -> float:
        """The set's place by loss among itself and its controls: 1 if it loses more than each; NaN without controls.

        A control that loses as much comes first, and so does one that loses less by no more than rounding.
        """
        if np.isnan(self.loss):
            return float("nan")
        sign = -1 if self.quantity.larger_is_better else 1
        least = sign * self.ablated - _ROUNDING * abs(self.ablated)
        return 1 + int((sign * np.array(self.others) >= least).sum())

    @property
    def p(self) -> float:
        """How probable this rank or a better one is if the set is no different from its controls; NaN without.

        It is rank / (controls + 1), and so never below 1 / (controls + 1).
        Source: Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010), article 39.
        """
        return self.rank / (self.controls + 1)

    @property
    def matters(self) -> bool:
        """Whether the set costs more than others by its rank among them: p is 0.05 or less."""
        return self.p <= LEVEL

    @property
    def leads(self) -> bool:
        """Whether it costs more than others by its rank, or more than each of them where these are too few to tell."""
        return self.rank == 1 or self.matters

    @property
    def conclusion(self) -> str:
        """What the rank says, and how far the effect is from zero; empty where nothing is known.

        An effect may be several errors from zero and still be one that other heads have: so the rank decides.
        """
        if np.isnan(self.rank):
            return ""
        ratio = abs(self.loss) / self.se if self.se > 0 else float("nan")
        far = "" if np.isnan(ratio) else f"{ratio:.1f} errors {'above' if self.loss > 0 else 'below'} zero, "
        at = f"{far}rank {self.rank:.0f} of {self.controls + 1}"
        if self.matters:
            return f"costs more than other heads ({at})"
        few = f"; {counted(self.controls, 'control')} cannot tell more" if self.rank == 1 else ""
        return f"is not seen to cost more than other heads ({at}{few})"


@dataclass(frozen=True)
class Ablation:
    """What sets of heads are worth."""

    effects: tuple[Effect, ...]
    """Quantity by quantity, set by set."""
    grid: Grid
    """The model's heads."""
    replace: Replacement
    """What takes the place of a switched-off head's output: `zero`, or its `mean`."""
    draws: int
    """The most controls that a set may have."""
    chosen_by: str
    """How the sets were chosen, in a few words."""
    choosing_pairs: int
    """Pairs by which a scan chose the sets; 0 where heads were named."""
    measured_pairs: int
    """The other pairs, on which the sets were measured."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""

    def __repr__(self) -> str:
        about = [f"switched off by {self.replace}, sets chosen {self.chosen_by}"]
        for quantity in self.quantities:
            told = [f"{effect.set.name} {effect.effect:+.3f} ± {effect.interval:.3f}" for effect in self.of(quantity)]
            about.append(f"effect beside other heads, by {quantity.name}: {', '.join(told)}")
        return lines(self, self.signature, self.grid, *about)

    @property
    def quantities(self) -> list[Quantity]:
        """What was measured, in order."""
        return list(dict.fromkeys(effect.quantity for effect in self.effects))

    def of(self, quantity: Quantity) -> list[Effect]:
        """The effects by one quantity."""
        return [effect for effect in self.effects if effect.quantity == quantity]

    @property
    def alone(self) -> bool:
        """Whether every set is a single head, named as itself."""
        return all([effect.set.name] == [head.name for head in effect.set.heads] for effect in self.effects)

    def to_frame(self) -> pd.DataFrame:
        """One row for each set and quantity."""
        import pandas as pd

        first = ("intact", "ablated", "control", "effect", "se", "spread", "controls", "rank", "p")
        rows = [
            {
                "model": self.signature.model,
                "set": effect.set.name,
                "heads": len(effect.set.heads),
                "measure": effect.quantity.name,
                **{name: getattr(effect, name) for name in first},
                "overlap": effect.set.overlap,
                "n": effect.n,
                "pairs": effect.pairs,
                "conclusion": effect.conclusion,
            }
            for effect in self.effects
        ]
        frame = pd.DataFrame(rows).astype({"rank": "Int64"})
        frame.attrs = {
            "signature": asdict(self.signature),
            "replace": self.replace,
            "draws": self.draws,
            "chosen_by": self.chosen_by,
            "choosing_pairs": self.choosing_pairs,
            "measured_pairs": self.measured_pairs,
            "members": {effect.set.name: ",".join(head.name for head in effect.set.heads) for effect in self.effects},
            "possible_controls": {effect.set.name: effect.set.possible for effect in self.effects},
        }
        return frame
