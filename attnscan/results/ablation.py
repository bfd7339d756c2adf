"""What heads are worth to a model: what it loses without them, beside what it loses without others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from attnscan.results.heads import Head, head_name
from attnscan.results.signature import Signature
from attnscan.results.terms import By

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Quantity:
    """What is measured of a model."""

    name: str
    unit: str
    larger_is_better: bool = False


@dataclass(frozen=True)
class Effect:
    """What one set of heads is worth, by one quantity. NaN where nothing was measured."""

    set: HeadSet
    quantity: Quantity
    intact: float
    """Of the model as it is; 0 where the quantity is itself a change."""
    ablated: float
    """With the heads switched off."""
    control: float
    """With as many others of the same layers switched off: the mean of the draws."""
    effect: float
    """`ablated` minus `control`."""
    se: float
    """Its standard error, over pairs and draws."""
    n: int
    """Words, or answers."""
    pairs: int

    @property
    def loss(self) -> float:
        """The effect as a loss: above 0 if these heads are worth more than others."""
        return -self.effect if self.quantity.larger_is_better else self.effect


@dataclass(frozen=True)
class Ablation:
    """What sets of heads are worth."""

    effects: tuple[Effect, ...]
    """Quantity by quantity, set by set."""
    grid: tuple[int, int]
    by: By
    draws: int
    chosen_by: str
    """How the sets were chosen, in a few words."""
    signature: Signature

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
        return all([effect.set.name] == [head_name(head) for head in effect.set.heads] for effect in self.effects)

    def to_frame(self) -> pd.DataFrame:
        """One row for each set and quantity."""
        import pandas as pd

        rows = [self._row(effect) for effect in self.effects]
        frame = pd.DataFrame(rows)
        frame.attrs = {
            "signature": asdict(self.signature),
            "by": self.by,
            "draws": self.draws,
            "chosen_by": self.chosen_by,
            "members": {effect.set.name: members(effect.set.heads) for effect in self.effects},
        }
        return frame

    def _row(self, effect: Effect) -> dict[str, object]:
        numbers = {name: getattr(effect, name) for name in ("intact", "ablated", "control", "effect", "se")}
        return {
            "model": self.signature.model,
            "set": effect.set.name,
            "heads": len(effect.set.heads),
            "measure": effect.quantity.name,
            **numbers,
            "overlap": effect.set.overlap,
            "n": effect.n,
            "pairs": effect.pairs,
        }


def members(heads: Sequence[tuple[int, int]]) -> str:
    """Heads by name, as the command line takes them."""
    return ",".join(map(head_name, heads))


@dataclass(frozen=True)
class HeadSet:
    """Heads that are switched off together."""

    name: str
    heads: tuple[Head, ...]
    controls: tuple[tuple[Head, ...], ...] = ()
    """As many heads of the same layers, drawn at random, once a draw; none where no layer has others."""

    @property
    def overlap(self) -> float:
        """The share of a control's heads that belong to the set itself, in [0, 1]; NaN without controls."""
        if not self.controls:
            return float("nan")
        return len(set(self.heads) & set(self.controls[0])) / len(self.heads)  # the same in every draw
