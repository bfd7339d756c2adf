"""How heads make their patterns: which neurons, what a change does to their scores, and what follows in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attnscan.results.attention import Attention
from attnscan.results.behaviour import Labels
from attnscan.results.grid import Head, HeadLike
from attnscan.results.intervals import half_width
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.shown import lines, shaped
from attnscan.results.signature import Signature
from attnscan.results.terms import SHUFFLES, THRESHOLD

if TYPE_CHECKING:
    import pandas as pd

NEURON_MEASURES = {
    "effective_neurons": "effective neurons",
    "stability": "stability",
    "sign_agreement": "sign agreement",
}
"""What is measured of a head's neurons, and how a sentence says so."""
CAUSES = {
    "positions_shuffled": "with the words' positions shuffled",
    "segments_zeroed": "with all segment ids 0",
    "segments_swapped": "with the segment ids exchanged",
}
"""What is changed in what the model reads, and how a sentence says so."""
Effect = Literal["falls", "falls in part", "stays", "uncertain", ""]
"""What a change does to a score; uncertain where the error does not tell one from another, empty where it is n/a."""
Sign = Literal["<", ">", "≈", ""]

_FALLS = 0.5  # of what a score is above chance: a pattern that loses more rests on what was changed
_FALLS_IN_PART = 0.2
_SHOWN = 4  # heads


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
    """Which neurons of its queries and keys each head's pattern rests on, in the own basis and then in rotated ones.

    NaN where no query was eligible, or the model shows no queries and keys. Shape: each [basis, layer, head, pattern].
    """

    __repr__ = shaped

    effective: FloatArray
    """How many neurons tell a query's targets from the other keys: the participation ratio of their contrasts."""
    stability: FloatArray
    """Mean Jaccard overlap of the four strongest neurons between two queries, in [0, 1]."""
    sign_agreement: FloatArray
    """Share of queries whose strongest neurons agree in sign inside their sentence and differ across."""

    @classmethod
    def unknown(cls, shape: tuple[int, ...]) -> NeuronTable:
        """Of a model that shows no queries and keys."""
        return cls(*[np.full(shape, np.nan)] * 3)

    def in_bases(self, heads: Sequence[Head], pattern: int) -> dict[str, InBases]:
        """Each of `NEURON_MEASURES` as its mean over some heads, on one pattern; each rotation's own mean beside."""
        layer, head = zip(*(head.place for head in heads), strict=True)
        measures = {}
        for name, values in zip(NEURON_MEASURES, (self.effective, self.stability, self.sign_agreement), strict=True):
            own, *rotated = values[:, layer, head, pattern].mean(-1)
            sd = np.std(rotated, ddof=1) if len(rotated) > 1 else np.nan
            measures[name] = InBases(float(own), float(np.mean(rotated)), float(sd), len(rotated))
        return measures


def neurons_conclusion(measures: Mapping[str, InBases]) -> str:
    """What the measures say of the checkpoint's own neurons, in one sentence; empty if nothing was measured."""
    known = {NEURON_MEASURES[name]: measure for name, measure in measures.items() if measure.sign}
    apart = [
        f"{name} {'below' if measure.sign == '<' else 'above'} the range of rotated bases"
        f" ({measure.own:.2f}; {measure.rotated:.2f} ± {measure.rotated_sd:.2f})"
        for name, measure in known.items()
        if measure.sign != "≈"
    ]
    alike = [name for name, measure in known.items() if measure.sign == "≈"]
    said = [f"it has {' and '.join(apart)}"] if apart else []
    if alike:
        what = " and ".join(alike) if len(alike) < 3 else f"{', '.join(alike[:-1])} and {alike[-1]}"
        lie, say = ("lies", "says") if len(alike) == 1 and not what.endswith("s") else ("lie", "say")
        said += [f"{what} {lie} in the range of rotated bases, and {say} nothing about the model's own neurons"]
    whole = "; ".join(said)
    return f"{whole[0].upper()}{whole[1:]}." if whole else ""


@dataclass(frozen=True)
class HeadExplanation:
    """How one head makes one pattern."""

    head: Head
    """Which one, both its numbers from 0."""
    label: str
    """What the head does, as `heads` labels it."""
    label_stays: float
    """In what share of bootstrap resamples of pairs or of the input's words, it is the same; NaN if that is unknown."""
    unsure: bool
    """Whether it would not stay, or too few tell."""
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

    def fall(self, cause: str) -> float:
        """How much of what the score is above chance a change takes away: 1 is all of it, 0 nothing; NaN for n/a."""
        above = self.score - self.chance
        return (self.score - self.causes[cause]) / above if above > 0 else float("nan")

    def reach(self, cause: str) -> float:
        """Half the width of the 95 % interval around what the score falls by, by t.

        Of one pair over the shuffles; 0 where nothing was drawn at random, and there is no error.
        """
        draws = SHUFFLES if self.pairs == 1 else self.pairs
        return float(np.nan_to_num(half_width(self.fall_se[cause], draws)))

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

    @property
    def effects(self) -> dict[str, Effect]:
        """What each change that is possible does to the score."""
        return {cause: effect for cause in CAUSES if (effect := self.effect(cause))}

    def _with_effect(self, effect: Effect) -> list[str]:
        return [cause for cause, own in self.effects.items() if own == effect]

    @property
    def by(self) -> str:
        """What the head is seen to go by, such as `by position` or `in part by segment`; empty where it is not known.

        It is `by content` only where shuffled positions leave the score, and nothing is uncertain.
        """
        for effect, how in (("falls", "by"), ("falls in part", "in part by")):
            if causes := self._with_effect(effect):  # type: ignore[arg-type]
                return f"{how} {' and '.join(dict.fromkeys(map(_changed, causes)))}"
        stays = self.effect("positions_shuffled") == "stays" and not self._with_effect("uncertain")
        return "by content" if stays else ""

    @property
    def neurons_conclusion(self) -> str:
        """What the neurons say, in one sentence; empty if there are none, or the head does not follow the pattern."""
        return neurons_conclusion(self.neurons) if self.above_chance >= THRESHOLD else ""

    @property
    def conclusion(self) -> str:
        """What the scores say, in one sentence."""
        name, short, score = self.head.name, f"its {self.pattern} score", f"{self.score:.2f}"
        if np.isnan(self.above_chance):
            return f"{name} cannot be explained here: no query of {self.pattern} is eligible."
        if self.above_chance < THRESHOLD:
            return f"{name} does not follow {self.pattern}: {short} is {score}, and chance is {self.chance:.2f}."
        falling = self._with_effect("falls") or self._with_effect("falls in part")
        said = [
            f"{CAUSES[cause]} {'it' if number else short} falls from {score} to {self.causes[cause]:.2f}"
            for number, cause in enumerate(falling)
        ]
        for cause in self._with_effect("uncertain"):
            told = f"{score} → {self.causes[cause]:.2f} ± {self.reach(cause):.2f}"
            said.append(f"{CAUSES[cause]} the error is too large to tell ({told})")
        stays = self._with_effect("stays")
        for cause in stays:
            if _changed(cause) == "position":
                what = "it" if said else short
                said.append(f"{CAUSES[cause]} {what} stays ({score} → {self.causes[cause]:.2f})")
        if any(_changed(cause) == "segment" for cause in stays) and "segment" not in map(_changed, falling):
            said.append("segments do not matter")
        said += [
            f"{what}s cannot be changed in this model"
            for what in ("position", "segment")
            if all(np.isnan(value) for cause, value in self.causes.items() if _changed(cause) == what)
        ]
        how = f" {self.by}" if self.by else ""
        return f"{name} {self.clause or f'follows {self.pattern}'}{how}: {'; '.join(said)}."

    def row(self) -> dict[str, Any]:
        """As the columns of a table."""
        row = {**self.head.columns, "label": self.label, "pattern": self.pattern, "score": self.score}
        row |= {"chance": self.chance, "above_chance": self.above_chance}
        row |= {name: measure.own for name, measure in self.neurons.items()}
        row |= {**self.causes, "n": self.n, "pairs": self.pairs, "se": self.se}
        row |= {f"{cause}_se": se for cause, se in self.cause_se.items()}
        row |= {f"{cause}_fall_se": se for cause, se in self.fall_se.items()}
        for name, measure in self.neurons.items():
            row |= {f"{name}_rotated": measure.rotated, f"{name}_rotated_sd": measure.rotated_sd}
        row |= {"label_stays": self.label_stays, "neurons_conclusion": self.neurons_conclusion}
        return row | {"conclusion": self.conclusion}


def _changed(cause: str) -> str:
    """`position` or `segment`."""
    return cause.split("_")[0].removesuffix("s")


@dataclass(frozen=True)
class Explanations:
    """How heads make their patterns, by one input or by many pairs."""

    labels: Labels
    """What heads are called by the input as it is, or by pairs, and how sure that is."""
    neurons: NeuronTable
    """The three measures of every head's neurons."""
    causes: Mapping[str, Scores]
    """The scores again, by what was changed. The error of a shuffle of one pair is that over its shuffles."""
    fall_se: Mapping[str, FloatArray]
    """The standard errors of what the scores fall by, likewise. Shape: each [layer, head, pattern]."""
    not_available: Mapping[str, str]
    """What could not be measured, and why."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    heads: tuple[Head, ...]
    """Those that were asked for."""
    pattern: str | None = None
    """The one that is explained; None for each head's own."""
    attention: Attention | None = field(default=None, repr=False)
    """Of the one input, if it was one."""
    query: int | None = None
    """The index of the token of the one input that was asked about; None for all."""

    @property
    def scores(self) -> Scores:
        """Of the input as it is."""
        return self.labels.scores

    def __repr__(self) -> str:
        first = [self[head] for head in self.heads[:_SHOWN]]
        about = [f"{known.pattern} {known.head.name} ({known.score:.2f})" for known in first]
        more = [f"and {len(self.heads) - _SHOWN} more"] if len(self.heads) > _SHOWN else []
        return lines(self, self.signature, self.scores.grid, f"explained: {', '.join([*about, *more])}")

    def __getitem__(self, named: HeadLike) -> HeadExplanation:
        """One head's. Raises: SelectionError if the model has no such head."""
        head, labels, table = self.scores.grid.head(named), self.labels, self.scores.words_only
        pattern = self.pattern
        if pattern is None and labels.follows[head.place]:
            pattern = str(labels.among_words[head.place])
        if pattern is None:  # the one that it comes nearest to; of equals the first
            above = np.nan_to_num(table.above_chance[head.place], nan=-np.inf)
            pattern = self.scores.patterns[int(np.argmax(above.round(6)))]
        place = (*head.place, self.scores.patterns.index(pattern))
        unknown = dict.fromkeys(CAUSES, float("nan"))
        after = {name: scores.words_only for name, scores in self.causes.items()}
        return HeadExplanation(
            head=head,
            label=str(labels.label[head.place]),
            label_stays=float("nan") if labels.stays is None else float(labels.stays[head.place]),
            unsure=bool(labels.unsure[head.place]),
            pattern=pattern,
            clause=self.scores.scored[place[-1]].clause,
            score=float(table.score[place]),
            chance=float(table.chance[place]),
            above_chance=float(table.above_chance[place]),
            se=float(table.se[place]),
            neurons=self.neurons.in_bases([head], place[-1]),
            causes=unknown | {name: float(scores.score[place]) for name, scores in after.items()},
            cause_se=unknown | {name: float(scores.se[place]) for name, scores in after.items()},
            fall_se=unknown | {name: float(se[place]) for name, se in self.fall_se.items()},
            n=int(table.n[place]),
            pairs=int(table.pairs[place]),
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a head; if a token was asked about, one a key, with each neuron's part of the logit."""
        import pandas as pd

        if self.query is None:
            frame = pd.DataFrame([{"model": self.signature.model, **self[head].row()} for head in self.heads])
        else:
            frame = pd.concat([self._keys(head, self.query) for head in self.heads], ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        return frame

    def _keys(self, head: Head, query: int) -> pd.DataFrame:
        """What a head makes of every key at one query."""
        import pandas as pd

        attention = self.attention
        assert attention is not None
        count = attention.keys
        columns: dict[str, Any] = {
            "model": self.signature.model,
            **head.columns,
            "query": query - attention.source,
            "query_token": attention.tokens[query],
            "key": range(count),
            "key_token": attention.tokens[:count],
            "weight": attention.rows_of(head, [query])[0, :count].astype(float),
        }
        if attention.query is not None:
            products = attention.products(head, query)[:count].astype(float)
            columns["logit"] = products.sum(-1)
            columns |= {f"neuron_{n}": products[:, n] for n in range(products.shape[1])}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for other tools: of one input also every head's weights, queries, keys and their products."""
        rows, attention = [self[head].row() for head in self.heads], self.attention
        about = {"signature": asdict(self.signature), "not_available": dict(self.not_available), "heads": rows}
        if attention is None:
            return about
        for row, head in zip(rows, self.heads, strict=True):
            place = attention.place(head)
            row["weights"] = attention.weights[place].tolist()
            if attention.query is not None and attention.key is not None:
                row["scaling"] = attention.scaling[head.row]
                row["query"], row["key"] = attention.query[place].tolist(), attention.key[place].tolist()
                row["products"] = [attention.products(head, query).tolist() for query in range(len(attention.tokens))]
        return about | {"tokens": list(attention.tokens), "sentence": list(attention.sentence)}
