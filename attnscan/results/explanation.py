"""How heads make their patterns: by which neurons, and what changes do to their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscan.results.attention import Attention
from attnscan.results.columns import RANKING_COLUMNS
from attnscan.results.grid import Head, HeadLike
from attnscan.results.intervals import half_width
from attnscan.results.label_rules import THRESHOLD
from attnscan.results.lazy import pd
from attnscan.results.schemas import (
    LABEL_COLUMN,
    LABEL_STAYS_COLUMN,
    MODEL_COLUMN,
    PLACE_COLUMNS,
    TOKEN_COLUMNS,
    Column,
    Table,
    file_columns,
)
from attnscan.results.scores import FloatArray, IntArray, Labels
from attnscan.results.signature import Signature, describe, signed_frame

_NEURON_MEASURES = {
    "effective_neurons": "how many neurons tell target keys from others",
    "stability": "overlap of the four strongest neurons between two queries",
    "sign_agreement": "share of queries whose strongest neurons tell the sentences by their sign",
}
NEURONS = tuple(_NEURON_MEASURES)
ROTATIONS = 8
SHUFFLES = 8  # how often the words' positions are shuffled
SHUFFLED = "positions_shuffled"
CAUSES = {
    SHUFFLED: "with the words' positions shuffled",
    "segments_zeroed": "with all segment ids 0",
    "segments_swapped": "with the segment ids exchanged",
}
"""Changes of the model's input, and the words for them in sentences."""
_VERBS = {
    "falls": "falls to",
    "falls in part": "falls in part to",
    "stays": "stays at",
    "uncertain": "is uncertain at",
}
_FALLS = 0.5  # of what a score is above chance
_FALLS_IN_PART = 0.2


def _columns() -> Iterator[Column]:
    """The columns of `explain`, measure by measure."""
    yield MODEL_COLUMN
    yield from PLACE_COLUMNS
    yield LABEL_COLUMN
    yield Column("pattern", "the pattern that is explained", "text", is_key=True)
    yield from file_columns(RANKING_COLUMNS[:3])
    for name, about in _NEURON_MEASURES.items():
        yield Column(name, about)
    for name, about in CAUSES.items():
        yield Column(name, f"the score {about}")
    yield Column("n", "eligible queries", "integer")
    yield Column("pairs", "pairs", "integer")
    yield Column("se", "standard error of the score")
    for name, about in CAUSES.items():
        yield Column(f"{name}_se", f"standard error of the score {about}")
    for name, about in CAUSES.items():
        yield Column(f"{name}_fall_se", f"standard error of the fall {about}")
    for name in NEURONS:
        yield Column(f"{name}_rotated", f"mean of {name} over rotated bases")
        yield Column(f"{name}_rotated_sd", f"standard deviation of {name} over these")
    yield LABEL_STAYS_COLUMN
    yield Column("by", "what the pattern depends on, if that was seen", "text")
    yield Column("conclusion", "the finding, as a sentence", "text")


EXPLANATION_TABLE = Table("explain", "a head, and how it makes its pattern", tuple(_columns()))
TOKEN_TABLE = Table(
    "explain-token",
    "a key of one query, for a head",
    (
        MODEL_COLUMN,
        *PLACE_COLUMNS,
        *TOKEN_COLUMNS,
        Column("weight", "the attention weight"),
        Column("logit", "what softmax makes the weight of", is_optional=True),
        Column(r"neuron_\d+", "a neuron's part of the logit", is_numbered=True),
    ),
)


@dataclass(frozen=True)
class Explanations:
    """How heads make their patterns, by one input or by many pairs."""

    labels: Labels  # what heads are called, and how sure that is
    names: tuple[str, ...]  # of what was measured: patterns and, for cards, the habits behind them
    score: FloatArray
    """Every head's scores, then the same with each of `CAUSES` changed; NaN where that cannot be.

    Shape: [change, layer, head, pattern], as of the next two."""
    se: FloatArray  # their standard errors, clustered by pair; of one pair, over the shuffles
    fall_se: FloatArray  # likewise, of what scores fall by
    chance: FloatArray  # Shape: [layer, head, pattern], as of the next two
    n: IntArray
    pairs: IntArray
    clusters: IntArray
    """What errors are clustered by: distinct pairs with a query, or blocks of these."""
    neurons: FloatArray
    """Each of `NEURONS` in the own basis, then in rotated ones; NaN where there is none.

    Shape: [measure, basis, layer, head, pattern]."""
    not_available: Mapping[str, str]  # what could not be measured, and why
    signature: Signature  # where the result comes from: model, versions, device, input
    heads: tuple[Head, ...]  # those that were asked for
    pattern: str | None = None  # the one that is explained; None for each head's own
    attention: Attention | None = None  # of the one input, if it was one
    query: int | None = None
    """The index of the token of the one input that was asked about; None for all."""

    __repr__ = describe

    def __getitem__(self, name: HeadLike) -> pd.Series[Any]:
        """One head's row: of the pattern asked for, else of its own or the nearest one.

        Raises: SelectionError if the model has no such head.
        """
        head = self.labels.grid.head(name)
        return self.row(head, self.pattern or self.labels.nearest_pattern(head))

    def row(self, head: Head, name: str) -> pd.Series[Any]:
        """How a head makes a pattern or habit, as a row of the table.

        A name that both have is the pattern's.
        """
        place = (*head.place, self.names.index(name))
        scores: list[float] = self.score[..., *place].tolist()
        errors: list[float] = self.se[..., *place].tolist()
        fall_errors: list[float] = self.fall_se[..., *place].tolist()
        neurons = self.neurons[..., *place]  # [measure, basis]
        score = scores[0]
        chance = float(self.chance[place])
        row = {
            **head.columns,
            "label": str(self.labels.label[head.place]),
            "pattern": name,
            "score": score,
            "chance": chance,
            "above_chance": (score - chance) / (1 - chance) if chance < 1 else np.nan,
        }
        row |= zip(NEURONS, neurons[:, 0].tolist(), strict=True)
        row |= zip(CAUSES, scores[1:], strict=True)
        row |= {"n": int(self.n[place]), "pairs": int(self.pairs[place]), "se": errors[0]}
        for cause, error in zip(CAUSES, errors[1:], strict=True):
            row[f"{cause}_se"] = error
        for cause, error in zip(CAUSES, fall_errors[1:], strict=True):
            row[f"{cause}_fall_se"] = error
        for measure, rotated in zip(NEURONS, neurons[:, 1:], strict=True):
            row[f"{measure}_rotated"] = rotated.mean()
            row[f"{measure}_rotated_sd"] = rotated.std(ddof=1)
        row["label_stays"] = float(self.labels.label_stays[head.place])
        series = pd.Series(row, dtype=object)
        verdicts = effects(series, int(self.clusters[place]))
        series["by"] = gone_by(verdicts)
        series["conclusion"] = f"{head.name} {conclusion(series, verdicts)}"
        return series

    def evidence(self, head: Head, name: str) -> str:
        """What each change does to a head's score on a pattern or habit, in words."""
        place = (*head.place, self.names.index(name))
        row = self.row(head, name)
        return evidence(row, effects(row, int(self.clusters[place])))

    def to_frame(self) -> pd.DataFrame:
        """One row a head.

        If a token was asked about, one a key, with each neuron's part of the logit.
        """
        if self.query is None:
            table = EXPLANATION_TABLE
            rows = pd.DataFrame([dict(self[head]) for head in self.heads])
        else:
            table = TOKEN_TABLE
            parts = [self.keys(head, self.query) for head in self.heads]
            rows = pd.concat(parts, ignore_index=True)
        not_available = dict(self.not_available)
        return signed_frame(rows, self.signature, table, not_available=not_available)

    def keys(self, head: Head, query: int) -> pd.DataFrame:
        """What a head makes of every key at one query of the one input.

        Its weight, its logit, and what each neuron adds to it.
        """
        attention = self.attention
        assert attention is not None
        count = attention.keys
        columns = {
            **head.columns,
            "query": query - attention.source,
            "query_token": attention.tokens[query],
            "key": range(count),
            "key_token": attention.tokens[:count],
            "weight": attention.rows_of(head, [query])[0, :count].astype(float),
        }
        frame = pd.DataFrame(columns)
        if attention.query is None:
            return frame
        products = attention.products(head, query)[:count].astype(float)
        neurons = pd.DataFrame(products).add_prefix("neuron_")
        return frame.assign(logit=neurons.sum(axis=1)).join(neurons)


def sign(row: pd.Series[Any], measure: str) -> str:
    """Whether one of `NEURONS` lies below, above or within what rotated bases give.

    `<`, `>` or `≈`; empty for NaN.

    Within the interval that holds the value of one further rotation 95 times in 100, by Student's
    t.
    """
    value = row[measure]
    rotated = row[f"{measure}_rotated"]
    sd = row[f"{measure}_rotated_sd"]
    reach = float(half_width(sd * (1 + 1 / ROTATIONS) ** 0.5, ROTATIONS)) + 1e-9
    if np.isnan(value - rotated):
        return ""
    if value < rotated - reach:
        return "<"
    return ">" if value > rotated + reach else "≈"


def effects(row: pd.Series[Any], clusters: int) -> dict[str, str]:
    """What changes do to a score: it `falls`, `falls in part`, `stays`, or is `uncertain`.

    A change that was not measured is left out.

    A fall is a share of what the score is above chance, and counts if it is larger than its 95 %
    error, by t over that many `clusters`; of a single one, errors are over shuffles.
    """
    above = row["score"] - row["chance"]
    repeats = SHUFFLES if clusters == 1 else clusters
    verdicts = {}
    for cause in CAUSES:
        fall = row["score"] - row[cause]
        if np.isnan(fall) or not above > 0:
            continue
        reach = np.nan_to_num(half_width(row[f"{cause}_fall_se"], repeats))
        verdicts[cause] = _effect(fall, above, float(reach))
    return verdicts


def _effect(fall: float, above: float, reach: float) -> str:
    """What a change does to a score so far `above` chance, which falls by `fall` ± `reach`."""
    share = fall / above
    may_fall = share < _FALLS_IN_PART and (fall + reach) / above >= _FALLS
    may_stay = _FALLS_IN_PART * above <= fall <= reach
    if may_fall or may_stay:
        return "uncertain"
    if share < _FALLS_IN_PART:
        return "stays"
    return "falls" if share >= _FALLS else "falls in part"


def gone_by(verdicts: Mapping[str, str]) -> str:
    """What a head goes by, such as `by position`; empty where it is not known.

    It is `by content` only where shuffled positions leave the score, and nothing is uncertain.
    """
    for effect, words in (("falls", "by"), ("falls in part", "in part by")):
        causes = [cause for cause in verdicts if verdicts[cause] == effect]
        features = dict.fromkeys(map(_changed, causes))
        if features:
            return f"{words} {' and '.join(features)}"
    is_sure = "uncertain" not in verdicts.values()
    return "by content" if is_sure and verdicts.get(SHUFFLED) == "stays" else ""


def evidence(row: pd.Series[Any], verdicts: Mapping[str, str]) -> str:
    """What each change does to a score, and what cannot be changed."""
    parts = []
    changes = [
        f"{_VERBS[effect]} {row[cause]:.2f} {CAUSES[cause]}" for cause, effect in verdicts.items()
    ]
    if changes:
        parts.append(f"its {row['pattern']} score of {row['score']:.2f} {', '.join(changes)}")
    fixed = dict.fromkeys(_changed(cause) for cause in CAUSES if np.isnan(row[cause]))
    if fixed:
        parts.append(f"{'s and '.join(fixed)}s cannot be changed here")
    return "; ".join(parts)


def conclusion(row: pd.Series[Any], verdicts: Mapping[str, str]) -> str:
    """State in one sentence what the scores of a head show."""
    pattern = row["pattern"]
    if np.isnan(row["above_chance"]):
        return f"cannot be explained by {pattern}: no query is eligible."
    if row["above_chance"] < THRESHOLD:
        numbers = f"its score is {row['score']:.2f}, and chance is {row['chance']:.2f}"
        return f"does not follow {pattern}: {numbers}."
    follows = f"follows {pattern} {row['by']}".rstrip()
    return f"{follows}: {evidence(row, verdicts)}."


def _changed(cause: str) -> str:
    """`position` or `segment`."""
    return cause.split("_")[0].removesuffix("s")
