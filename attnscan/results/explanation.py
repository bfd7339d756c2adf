"""What was found of how heads make their patterns: numbers before and after, and what they say in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscan.results.attention import Attention
from attnscan.results.heads import Head, head_name
from attnscan.results.scores import MIXED, FloatArray, Scores
from attnscan.results.signature import Signature
from attnscan.results.terms import THRESHOLD

if TYPE_CHECKING:
    import pandas as pd

CAUSES = {
    "positions_shuffled": "with the words' positions shuffled",
    "segments_zeroed": "with all segment ids 0",
    "segments_swapped": "with the segment ids exchanged",
}
"""What is changed in what the model reads, and how a sentence says so."""

_FALLS = 0.5  # of what a score is above chance: a pattern that loses more rests on what was changed
_FALLS_IN_PART = 0.2
_CLAUSES = {
    "next-word": "finds the next word",
    "previous-word": "finds the previous word",
    "identical": "finds identical words",
    "cross-sentence": "finds identical words in the other sentence",
    "predictive": "finds the words that predict a word",
    "delimiter": "rests on delimiters",
    "bag-of-words": "spreads over its own sentence",
}


@dataclass(frozen=True)
class HeadExplanation:
    """How one head makes one pattern."""

    head: Head
    label: str
    """The pattern that the head follows, or `mixed`."""
    pattern: str
    """The one that is explained."""
    score: float
    chance: float
    above_chance: float
    effective_neurons: float
    """How many neurons tell targets from other keys; NaN if the model shows no queries and keys."""
    stability: float
    """In [0, 1]: 1 if every query's strongest neurons are the same."""
    sign_agreement: float
    """In [0, 1]; NaN if no query had words in both sentences."""
    causes: Mapping[str, float]
    """The score again, by what was changed; NaN where that is not to be had."""
    n: int
    pairs: int

    def fall(self, cause: str) -> float:
        """How much of what the score is above chance a change takes away: 1 is all of it, 0 nothing; NaN for n/a."""
        above = self.score - self.chance
        return (self.score - self.causes[cause]) / above if above > 0 else float("nan")

    @property
    def conclusion(self) -> str:
        """What the numbers say, in one sentence."""
        name, short = head_name(self.head), f"its {self.pattern} score"
        if self.above_chance != self.above_chance:
            return f"{name} cannot be explained here: no query of {self.pattern} is eligible."
        if self.above_chance < THRESHOLD:
            return (
                f"{name} does not follow {self.pattern}: {short} is {self.score:.2f}, and {self.chance:.2f} by chance."
            )
        falls = {cause: self.fall(cause) for cause in CAUSES if not np.isnan(self.causes[cause])}
        strong = [cause for cause, fall in falls.items() if fall >= _FALLS]
        partly = [cause for cause, fall in falls.items() if _FALLS_IN_PART <= fall < _FALLS]
        by = " and ".join(dict.fromkeys(_what(cause) for cause in strong or partly))
        how = f" by {by}" if strong else f" in part by {by}" if partly else " by content" if falls else ""
        said = [self._change(cause, short if i == 0 else "it") for i, cause in enumerate(strong or partly)]
        said += self._without_effect(
            set(falls) - set(strong) - set(partly), mentioned={_what(c) for c in strong + partly}
        )
        said += [f"{what} cannot be changed in this model" for what in self._not_to_be_had()]
        start = f"{name} {_CLAUSES.get(self.pattern, f'follows {self.pattern}')}{how}"
        return f"{start}: {'; '.join(said)}."

    def _change(self, cause: str, what: str) -> str:
        return f"{CAUSES[cause]} {what} falls from {self.score:.2f} to {self.causes[cause]:.2f}"

    def _without_effect(self, causes: set[str], mentioned: set[str]) -> list[str]:
        positions = [f"{CAUSES[c]} it stays ({self.score:.2f} → {self.causes[c]:.2f})" for c in causes if "pos" in c]
        segments = any(c.startswith("segments") for c in causes) and "segment" not in mentioned
        return [*positions, *(["segments do not matter"] if segments else [])]

    def _not_to_be_had(self) -> list[str]:
        kinds = {"positions": ["positions_shuffled"], "segments": ["segments_zeroed", "segments_swapped"]}
        return [kind for kind, causes in kinds.items() if all(np.isnan(self.causes[cause]) for cause in causes)]

    def row(self) -> dict[str, Any]:
        """As the columns of a table."""
        numbers = asdict(self)
        layer, head = numbers.pop("head")
        causes = numbers.pop("causes")
        counts = {name: numbers.pop(name) for name in ("n", "pairs")}
        return {"layer": layer, "head": head, **numbers, **causes, **counts, "conclusion": self.conclusion}


@dataclass(frozen=True)
class Explanations:
    """How heads make their patterns, by one input or by many pairs."""

    scores: Scores
    neurons: NeuronTable
    causes: Mapping[str, Scores]
    """The scores again, by what was changed."""
    not_available: Mapping[str, str]
    """What could not be measured, and why."""
    signature: Signature
    heads: tuple[Head, ...]
    """Those that were asked for."""
    pattern: str | None = None
    """The one that is explained; None for each head's own."""
    attention: Attention | None = field(default=None, repr=False)
    """Of the one input, if it was one."""

    def __getitem__(self, head: Head) -> HeadExplanation:
        table = self.scores.every_key
        label = str(self.scores.ranked_labels(table, 0, THRESHOLD)[head])
        pattern = self.pattern or (label if label != MIXED else self._nearest(head))
        place = (*head, self.scores.patterns.index(pattern))
        return HeadExplanation(
            head=head,
            label=label,
            pattern=pattern,
            score=float(table.score[place]),
            chance=float(table.chance[place]),
            above_chance=float(table.above_chance[place]),
            effective_neurons=float(self.neurons.effective[place]),
            stability=float(self.neurons.stability[place]),
            sign_agreement=float(self.neurons.sign_agreement[place]),
            causes={
                name: float(self.causes[name].every_key.score[place]) if name in self.causes else float("nan")
                for name in CAUSES
            },
            n=int(table.n[place]),
            pairs=int(table.pairs[place]),
        )

    def _nearest(self, head: Head) -> str:
        """The pattern that a head comes nearest to, though it is not near enough to be its label."""
        above = np.nan_to_num(self.scores.every_key.above_chance[head], nan=-np.inf)
        return self.scores.patterns[int(np.argmax(above))]

    def to_frame(self) -> pd.DataFrame:
        """One row a head."""
        import pandas as pd

        rows = [{"model": self.signature.model, **self[head].row()} for head in self.heads]
        frame = pd.DataFrame(rows)
        frame.attrs = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        return frame

    def token_frame(self, query: int) -> pd.DataFrame:
        """What the heads make of every key at one query: one row a key, with each neuron's part of the logit."""
        import pandas as pd

        assert self.attention is not None
        parts = [self._keys(head, query, self.attention) for head in self.heads]
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        return frame

    def _keys(self, head: Head, query: int, attention: Attention) -> pd.DataFrame:
        import pandas as pd

        count = len(attention.tokens)
        columns: dict[str, Any] = {
            "model": self.signature.model,
            "layer": head[0],
            "head": head[1],
            "query": query,
            "query_token": attention.tokens[query],
            "key": range(count),
            "key_token": attention.tokens,
            "weight": attention.weights[(*head, query)].astype(float),
        }
        if attention.query is not None:
            products = attention.products(*head, query).astype(float)
            columns["logit"] = products.sum(-1)
            columns |= {f"neuron_{n}": products[:, n] for n in range(products.shape[1])}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for other tools: of one input also every head's weights, queries, keys and their products."""
        about = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        rows = [self[head].row() for head in self.heads]
        if self.attention is None:
            return {**about, "heads": rows}
        attention = self.attention
        for row, head in zip(rows, self.heads, strict=True):
            row["weights"] = attention.weights[head].tolist()
            if attention.query is not None and attention.key is not None:
                queries = range(len(attention.tokens))
                row["scaling"] = attention.scaling[head[0]]
                row["query"] = attention.query[head].tolist()
                row["key"] = attention.key[head].tolist()
                row["products"] = [attention.products(*head, query).tolist() for query in queries]
        return {**about, "tokens": list(attention.tokens), "sentence": list(attention.sentence), "heads": rows}


def _what(cause: str) -> str:
    return cause.split("_")[0].removesuffix("s")


@dataclass(frozen=True)
class NeuronTable:
    """Which neurons of its queries and keys each head's pattern rests on. Shape: each [layer, head, pattern].

    NaN where no query was eligible, or the model shows no queries and keys.
    """

    effective: FloatArray
    """How many neurons tell a query's targets from the other keys: the participation ratio of their contrasts."""
    stability: FloatArray
    """Mean Jaccard overlap of the four strongest neurons between two queries, in [0, 1]."""
    sign_agreement: FloatArray
    """Share of queries whose strongest neurons agree in sign inside their sentence and differ across."""
