"""Which neurons heads rest on, beside what any other basis of the same heads would show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.scores import FloatArray
from attnscan.results.shown import shaped

NEURON_MEASURES = {
    "effective_neurons": "effective neurons",
    "stability": "stability",
    "sign_agreement": "sign agreement",
}
"""What is measured of a head's neurons, and how a sentence says so."""

Sign = Literal["<", ">", "≈", ""]


@dataclass(frozen=True)
class InBases:
    """One measure in the basis that the checkpoint has, and in rotated ones, which change no weight of a head.

    What rotated bases show as well is no finding about the checkpoint's own neurons.
    """

    __repr__ = shaped

    own: float
    rotated: float
    """The mean over rotations."""
    rotated_sd: float
    """The standard deviation over rotations."""
    rotations: int

    @classmethod
    def of(cls, own: float, rotated: FloatArray) -> InBases:
        """Shape: `rotated` is [rotation]; NaN where there was nothing to measure."""
        return cls(float(own), float(rotated.mean()), float(rotated.std(ddof=1)), len(rotated))

    @property
    def sign(self) -> Sign:
        """`<` or `>` where the own value lies outside of what rotations give, `≈` where it lies within; empty for NaN.

        Outside: beyond the interval that holds the value of one further rotation 95 times in 100, by Student's t.
        """
        if np.isnan([self.own, self.rotated, self.rotated_sd]).any():
            return ""
        reach = float(half_width(self.rotated_sd * (1 + 1 / self.rotations) ** 0.5, self.rotations))
        if abs(self.own - self.rotated) <= reach + 1e-9:
            return "≈"
        return "<" if self.own < self.rotated else ">"


@dataclass(frozen=True)
class NeuronTable:
    """Which neurons of its queries and keys each head's pattern rests on. Shape: each [layer, head, pattern].

    NaN where no query was eligible, or the model shows no queries and keys.
    """

    __repr__ = shaped

    effective: FloatArray
    """How many neurons tell a query's targets from the other keys: the participation ratio of their contrasts."""
    stability: FloatArray
    """Mean Jaccard overlap of the four strongest neurons between two queries, in [0, 1]."""
    sign_agreement: FloatArray
    """Share of queries whose strongest neurons agree in sign inside their sentence and differ across."""
    effective_rotated: FloatArray
    """These three with the head's queries and keys rotated. Shape: each [rotation, layer, head, pattern]."""
    stability_rotated: FloatArray
    sign_agreement_rotated: FloatArray

    @classmethod
    def unknown(cls, shape: tuple[int, int, int]) -> NeuronTable:
        """Of a model that shows no queries and keys. Shape: [layer, head, pattern]."""
        own, rotated = np.full(shape, np.nan), np.full((2, *shape), np.nan)
        return cls(own, own, own, rotated, rotated, rotated)

    def in_bases(self, heads: Sequence[Head], pattern: int) -> dict[str, InBases]:
        """Each of `NEURON_MEASURES` as its mean over some heads, on one pattern; each rotation's own mean beside."""
        layer, head = zip(*(head.place for head in heads), strict=True)
        measured = {
            "effective_neurons": (self.effective, self.effective_rotated),
            "stability": (self.stability, self.stability_rotated),
            "sign_agreement": (self.sign_agreement, self.sign_agreement_rotated),
        }
        return {
            name: InBases.of(own[layer, head, pattern].mean(), rotated[:, layer, head, pattern].mean(-1))
            for name, (own, rotated) in measured.items()
        }


def neurons_conclusion(measures: Mapping[str, InBases]) -> str:
    """What the measures say of the checkpoint's own neurons, in one sentence; empty if nothing was measured."""
    known = {name: measure for name, measure in measures.items() if measure.sign}
    apart = [
        f"{NEURON_MEASURES[name]} {'below' if measure.sign == '<' else 'above'} what rotated bases give"
        f" ({measure.own:.2f}; {measure.rotated:.2f} ± {measure.rotated_sd:.2f})"
        for name, measure in known.items()
        if measure.sign != "≈"
    ]
    alike = [NEURON_MEASURES[name] for name, measure in known.items() if measure.sign == "≈"]
    said = ["It has " + " and ".join(apart)] if apart else []
    if alike:
        what = " and ".join(alike) if len(alike) < 3 else f"{', '.join(alike[:-1])} and {alike[-1]}"
        lie, say = ("lies", "says") if len(alike) == 1 and not what.endswith("s") else ("lie", "say")
        said += [f"{what} {lie} within what rotated bases give, and {say} nothing about the model's own neurons"]
    whole = "; ".join(said)
    return f"{whole[0].upper()}{whole[1:]}." if whole else ""
