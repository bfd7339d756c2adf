"""How heads make their patterns: which neurons, what a change does to their scores, and what follows in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscan.results.attention import Attention
from attnscan.results.grid import Head, HeadLike
from attnscan.results.intervals import half_width
from attnscan.results.label_rules import THRESHOLD
from attnscan.results.lazy import pd
from attnscan.results.scores import FloatArray, IntArray, Labels
from attnscan.results.signature import Signature, describe, signed_frame

NEURONS = "effective_neurons", "stability", "sign_agreement"
ROTATIONS = 8
SHUFFLES = 8  # how often the words' positions are shuffled
SHUFFLED = "positions_shuffled"
CAUSES = {
    SHUFFLED: "with the words' positions shuffled",
    "segments_zeroed": "with all segment ids 0",
    "segments_swapped": "with the segment ids exchanged",
}
"""Changes of the model's input, and the words for them in sentences."""
_FALLS, _FALLS_IN_PART = 0.5, 0.2  # of what a score is above chance


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
    neurons: FloatArray
    """Each of `NEURONS` in the own basis, then in rotated ones; NaN where there was nothing to measure.

    Shape: [measure, basis, layer, head, pattern]."""
    not_available: Mapping[str, str]  # what could not be measured, and why
    signature: Signature  # where the result comes from: model, versions, device, input
    heads: tuple[Head, ...]  # those that were asked for
    pattern: str | None = None  # the one that is explained; None for each head's own
    attention: Attention | None = None  # of the one input, if it was one
    query: int | None = (
        None  # the index of the token of the one input that was asked about; None for all
    )

    __repr__ = describe

    def __getitem__(self, name: HeadLike) -> pd.Series[Any]:
        """One head's row: of the pattern asked for, else of its own, else of the one that it comes nearest to.

        Raises: SelectionError if the model has no such head.
        """
        head = self.labels.grid.head(name)
        return self.row(head, self.pattern or self.labels.nearest_pattern(head))

    def row(self, head: Head, name: str) -> pd.Series[Any]:
        """How a head makes a pattern or habit, as a row of the table; a name that both have is the pattern's."""
        labels, place = self.labels, (*head.place, self.names.index(name))
        score, se, fall_se = (
            values[..., *place].tolist() for values in (self.score, self.se, self.fall_se)
        )
        chance, bases = float(self.chance[place]), self.neurons[..., *place]
        row = {
            **head.columns,
            "label": str(labels.label[head.place]),
            "pattern": name,
            "score": score[0],
        }
        row |= {
            "chance": chance,
            "above_chance": (score[0] - chance) / (1 - chance) if chance < 1 else np.nan,
        }
        row |= dict(zip(NEURONS, bases[:, 0].tolist(), strict=True)) | dict(
            zip(CAUSES, score[1:], strict=True)
        )
        row |= {"n": int(self.n[place]), "pairs": int(self.pairs[place]), "se": se[0]}
        row |= dict(zip((f"{cause}_se" for cause in CAUSES), se[1:], strict=True))
        row |= dict(zip((f"{cause}_fall_se" for cause in CAUSES), fall_se[1:], strict=True))
        for measure, rotated in zip(NEURONS, bases[:, 1:], strict=True):
            row |= {
                f"{measure}_rotated": rotated.mean(),
                f"{measure}_rotated_sd": rotated.std(ddof=1),
            }
        row["label_stays"] = float(labels.label_stays[head.place])
        series = pd.Series(row, dtype=object)
        series["by"] = gone_by(series)
        series["conclusion"] = f"{head.name} {conclusion(series)}"
        return series

    def to_frame(self) -> pd.DataFrame:
        """One row a head; if a token was asked about, one a key, with each neuron's part of the logit."""
        if self.query is None:
            rows = pd.DataFrame([dict(self[head]) for head in self.heads])
        else:
            rows = pd.concat(
                [self.keys(head, self.query) for head in self.heads], ignore_index=True
            )
        return signed_frame(rows, self.signature, not_available=dict(self.not_available))

    def keys(self, head: Head, query: int) -> pd.DataFrame:
        """What a head makes of every key at one query of the one input: weight, logit, and what neurons add to it."""
        attention = self.attention
        assert attention is not None
        count = attention.keys
        about = {"query": query - attention.source, "query_token": attention.tokens[query]}
        keys = {"key": range(count), "key_token": attention.tokens[:count]}
        weight = attention.rows_of(head, [query])[0, :count].astype(float)
        frame = pd.DataFrame({**head.columns, **about, **keys, "weight": weight})
        if attention.query is None:
            return frame
        products = pd.DataFrame(attention.products(head, query)[:count].astype(float)).add_prefix(
            "neuron_"
        )
        return frame.assign(logit=products.sum(axis=1)).join(products)


def sign(row: pd.Series[Any], measure: str) -> str:
    """Whether one of `NEURONS` lies below (`<`), above (`>`) or within (`≈`) what rotated bases give; empty for NaN.

    Within the interval that holds the value of one further rotation 95 times in 100, by Student's t.
    """
    value, rotated, sd = (row[f"{measure}{of}"] for of in ("", "_rotated", "_rotated_sd"))
    reach = float(half_width(sd * (1 + 1 / ROTATIONS) ** 0.5, ROTATIONS)) + 1e-9
    if np.isnan(value - rotated):
        return ""
    return "<" if value < rotated - reach else ">" if value > rotated + reach else "≈"


def effects(row: pd.Series[Any]) -> dict[str, str]:
    """What changes do to a score: it `falls`, `falls in part`, `stays`, or is `uncertain`; without those that are n/a.

    A fall is a share of what the score is above chance, and counts if it is larger than its 95 % error.
    """
    verdicts, above = dict[str, str](), row["score"] - row["chance"]
    for cause in CAUSES:
        fall, se = row["score"] - row[cause], row[f"{cause}_fall_se"]
        reach = float(
            np.nan_to_num(half_width(se, SHUFFLES if row["pairs"] == 1 else row["pairs"]))
        )
        if np.isnan(fall) or not above > 0:
            continue
        share, most = fall / above, (fall + reach) / above
        if (share < _FALLS_IN_PART and most >= _FALLS) or _FALLS_IN_PART * above <= fall <= reach:
            verdicts[cause] = "uncertain"
        else:
            verdicts[cause] = (
                "stays"
                if share < _FALLS_IN_PART
                else "falls"
                if share >= _FALLS
                else "falls in part"
            )
    return verdicts


def gone_by(row: pd.Series[Any]) -> str:
    """What a head goes by, such as `by position` or `in part by segment`; empty where it is not known.

    It is `by content` only where shuffled positions leave the score, and nothing is uncertain.
    """
    verdicts = effects(row)
    for effect, words in (("falls", "by"), ("falls in part", "in part by")):
        if features := {_changed(cause): None for cause in verdicts if verdicts[cause] == effect}:
            return f"{words} {' and '.join(features)}"
    return (
        "by content"
        if verdicts.get(SHUFFLED) == "stays" and "uncertain" not in verdicts.values()
        else ""
    )


def evidence(row: pd.Series[Any]) -> str:
    """What each change does to a score, and what cannot be changed."""
    verb_of = {"falls": "falls to", "falls in part": "falls in part to", "stays": "stays at"}
    verbs = {
        cause: verb_of.get(effect, "is uncertain at") for cause, effect in effects(row).items()
    }
    changes = ", ".join(f"{verb} {row[cause]:.2f} {CAUSES[cause]}" for cause, verb in verbs.items())
    fixed = dict.fromkeys(_changed(cause) for cause in CAUSES if np.isnan(row[cause]))
    parts = [f"its {row['pattern']} score of {row['score']:.2f} {changes}"] if changes else []
    return "; ".join(parts + ([f"{'s and '.join(fixed)}s cannot be changed here"] if fixed else []))


def conclusion(row: pd.Series[Any]) -> str:
    """State in one sentence what the scores of a head show."""
    if np.isnan(row["above_chance"]):
        return f"cannot be explained by {row['pattern']}: no query is eligible."
    if row["above_chance"] < THRESHOLD:
        return f"does not follow {row['pattern']}: its score is {row['score']:.2f}, and chance is {row['chance']:.2f}."
    return f"{' '.join(filter(None, ['follows', row['pattern'], row['by']]))}: {evidence(row)}."


def _changed(cause: str) -> str:
    """`position` or `segment`."""
    return cause.split("_")[0].removesuffix("s")
