"""How one head makes one pattern: numbers before and after, and what they say in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.scores import FloatArray
from attnscan.results.shown import shaped
from attnscan.results.terms import SHUFFLES, THRESHOLD

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
        f"{NEURON_MEASURES[name]} {'below' if measure.sign == '<' else 'above'} the range of rotated bases"
        f" ({measure.own:.2f}; {measure.rotated:.2f} ± {measure.rotated_sd:.2f})"
        for name, measure in known.items()
        if measure.sign != "≈"
    ]
    alike = [NEURON_MEASURES[name] for name, measure in known.items() if measure.sign == "≈"]
    said = ["It has " + " and ".join(apart)] if apart else []
    if alike:
        what = " and ".join(alike) if len(alike) < 3 else f"{', '.join(alike[:-1])} and {alike[-1]}"
        lie, say = ("lies", "says") if len(alike) == 1 and not what.endswith("s") else ("lie", "say")
        said += [f"{what} {lie} in the range of rotated bases, and {say} nothing about the model's own neurons"]
    whole = "; ".join(said)
    return f"{whole[0].upper()}{whole[1:]}." if whole else ""


CAUSES = {
    "positions_shuffled": "with the words' positions shuffled",
    "segments_zeroed": "with all segment ids 0",
    "segments_swapped": "with the segment ids exchanged",
}
"""What is changed in what the model reads, and how a sentence says so."""

Effect = Literal["falls", "falls in part", "stays", "uncertain", ""]
"""What a change does to a score; uncertain where the error does not tell one from another, empty where it is n/a."""

_FALLS = 0.5  # of what a score is above chance: a pattern that loses more rests on what was changed
_FALLS_IN_PART = 0.2


@dataclass(frozen=True)
class HeadExplanation:
    """How one head makes one pattern."""

    head: Head
    """Which one, both its numbers from 0."""
    label: str
    """The pattern that the head follows, or `mixed`."""
    label_stays: float
    """In what share of bootstrap resamples of pairs or of the input's words, it is the same; NaN if that is unknown."""
    unsure: bool
    """Whether it would not stay, or too few tell; `mixed` is none."""
    pattern: str
    """The one that is explained."""
    clause: str = field(repr=False)
    """What a head that follows that one does, such as `finds the next word`; empty for `follows` and its name."""
    score: float
    """Of the pattern that is explained."""
    chance: float
    """What a head would score that spreads its attention evenly."""
    above_chance: float
    """(score - chance) / (1 - chance)."""
    se: float
    """Standard error of the score, clustered by pair; NaN below two pairs."""
    neurons: Mapping[str, InBases]
    """`effective_neurons`, `stability` and `sign_agreement`, each beside the same in rotated bases."""
    causes: Mapping[str, float]
    """The score again, by what was changed; NaN where that is not available."""
    cause_se: Mapping[str, float]
    """The standard errors of those, clustered by pair; of one pair alone, over the shuffles, or NaN."""
    fall_se: Mapping[str, float]
    """Likewise the standard errors of the differences between the score and those."""
    n: int
    """Words that the score is averaged over."""
    pairs: int
    """Pairs that had any."""

    @property
    def effective_neurons(self) -> float:
        """How many neurons tell targets from other keys; NaN if the model shows no queries and keys."""
        return self.neurons["effective_neurons"].own

    @property
    def stability(self) -> float:
        """In [0, 1]: 1 if every query's strongest neurons are the same."""
        return self.neurons["stability"].own

    @property
    def sign_agreement(self) -> float:
        """In [0, 1]; NaN if no query had words in both sentences."""
        return self.neurons["sign_agreement"].own

    def fall(self, cause: str) -> float:
        """How much of what the score is above chance a change takes away: 1 is all of it, 0 nothing; NaN for n/a."""
        above = self.score - self.chance
        return (self.score - self.causes[cause]) / above if above > 0 else float("nan")

    def effect(self, cause: str) -> Effect:
        """What a change does to the score; a fall counts only if it is larger than its error at the 95 % level."""
        fall = self.fall(cause)
        if np.isnan(fall):
            return ""
        reach = self.reach(cause) / (self.score - self.chance)
        if fall < _FALLS_IN_PART:
            return "uncertain" if fall + reach >= _FALLS else "stays"
        if fall <= reach:
            return "uncertain"
        return "falls" if fall >= _FALLS else "falls in part"

    def reach(self, cause: str) -> float:
        """Half the width of the 95 % interval around what the score falls by, by t.

        Of one pair over the shuffles; 0 where nothing was drawn at random, and there is no error.
        """
        draws = SHUFFLES if self.pairs == 1 else self.pairs
        return float(np.nan_to_num(half_width(self.fall_se[cause], draws)))

    @property
    def effects(self) -> dict[str, Effect]:
        """What each change that is possible does to the score."""
        return {cause: effect for cause in CAUSES if (effect := self.effect(cause))}

    @property
    def falling(self) -> list[str]:
        """The changes by which the score falls or, if there is none, by which it falls in part."""
        strong = [cause for cause, effect in self.effects.items() if effect == "falls"]
        return strong or [cause for cause, effect in self.effects.items() if effect == "falls in part"]

    @property
    def by(self) -> str:
        """What the head is seen to go by, such as `by position` or `in part by segment`; empty where it is not known.

        It is `by content` only where shuffled positions leave the score, and nothing is uncertain.
        """
        if self.falling:
            causes = " and ".join(dict.fromkeys(_what(cause) for cause in self.falling))
            return f"by {causes}" if self.effect(self.falling[0]) == "falls" else f"in part by {causes}"
        stays = self.effect("positions_shuffled") == "stays" and "uncertain" not in self.effects.values()
        return "by content" if stays else ""

    @property
    def neurons_conclusion(self) -> str:
        """What the neurons say, in one sentence; empty if there are none, or the head does not follow the pattern."""
        return neurons_conclusion(self.neurons) if self.above_chance >= THRESHOLD else ""

    @property
    def conclusion(self) -> str:
        """What the scores say, in one sentence."""
        name, short = self.head.name, f"its {self.pattern} score"
        if self.above_chance != self.above_chance:
            return f"{name} cannot be explained here: no query of {self.pattern} is eligible."
        if self.above_chance < THRESHOLD:
            return (
                f"{name} does not follow {self.pattern}: {short} is {self.score:.2f}, and chance is {self.chance:.2f}."
            )
        effects, falling = self.effects, self.falling
        how = f" {self.by}" if self.by else ""
        said = [self._change(cause, short if i == 0 else "it") for i, cause in enumerate(falling)]
        said += [self._undecided(cause) for cause in effects if effects[cause] == "uncertain"]
        stays = [cause for cause in effects if effects[cause] == "stays"]
        said += self._without_effect(stays, {*map(_what, falling)}, "it" if said else short)
        said += [f"{what} cannot be changed in this model" for what in self._not_available()]
        start = f"{name} {self.clause or f'follows {self.pattern}'}{how}"
        return f"{start}: {'; '.join(said)}."

    def _change(self, cause: str, what: str) -> str:
        return f"{CAUSES[cause]} {what} falls from {self.score:.2f} to {self.causes[cause]:.2f}"

    def _undecided(self, cause: str) -> str:
        away = f"{self.score:.2f} → {self.causes[cause]:.2f} ± {self.reach(cause):.2f}"
        return f"{CAUSES[cause]} the error is too large to tell ({away})"

    def _without_effect(self, causes: list[str], mentioned: set[str], what: str) -> list[str]:
        same = f"{what} stays ({self.score:.2f} → "
        positions = [f"{CAUSES[c]} {same}{self.causes[c]:.2f})" for c in causes if "pos" in c]
        segments = any(c.startswith("segments") for c in causes) and "segment" not in mentioned
        return [*positions, *(["segments do not matter"] if segments else [])]

    def _not_available(self) -> list[str]:
        kinds = {"positions": ["positions_shuffled"], "segments": ["segments_zeroed", "segments_swapped"]}
        return [kind for kind, causes in kinds.items() if all(np.isnan(self.causes[cause]) for cause in causes)]

    def row(self) -> dict[str, Any]:
        """As the columns of a table."""
        own = ("label", "pattern", "score", "chance", "above_chance", *self.neurons)
        rotated = {
            name: value
            for measure, bases in self.neurons.items()
            for name, value in ((f"{measure}_rotated", bases.rotated), (f"{measure}_rotated_sd", bases.rotated_sd))
        }
        return {
            **self.head.columns,
            **{name: getattr(self, name) for name in own},
            **self.causes,
            "n": self.n,
            "pairs": self.pairs,
            "se": self.se,
            **{f"{cause}_se": se for cause, se in self.cause_se.items()},
            **{f"{cause}_fall_se": se for cause, se in self.fall_se.items()},
            **rotated,
            "label_stays": self.label_stays,
            "neurons_conclusion": self.neurons_conclusion,
            "conclusion": self.conclusion,
        }


def _what(cause: str) -> str:
    return cause.split("_")[0].removesuffix("s")
