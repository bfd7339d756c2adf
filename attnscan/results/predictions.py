"""Which words help to predict which, and what a model says before and after a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnscan.results.grid import Head
from attnscan.results.lazy import pd
from attnscan.results.schemas import (
    MODEL_COLUMN,
    TOKEN_COLUMNS,
    Column,
    Table,
)
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature, describe, signed_frame
from attnscan.text import plain

HelpMeasure = Literal["cpmi", "distance"]
"""How much a word helps to predict another.

By the masked-LM head, or by how far the last hidden state moves."""


DEPENDENCIES_TABLE = Table(
    "predictive",
    "two words: one that helps to predict the other",
    (
        MODEL_COLUMN,
        *TOKEN_COLUMNS,
        Column("help", "what hiding the key costs the prediction of the query"),
        Column("target", "that as a share of the best helper's, in [0, 1]"),
    ),
)


@dataclass(frozen=True)
class WordDependencies:
    """How much each word that was asked about helps to predict each other one.

    Shape: arrays are [query, key].
    """

    values: FloatArray
    """How much hiding the key costs the prediction of the query: in nats for `cpmi`, in corrected
    distance for `distance`; NaN where it was not measured."""
    shares: FloatArray
    """Each row scaled so that the best helper is 1, in [0, 1]; zero where none helps enough."""
    places: tuple[int, ...]  # which units of the input were asked about, in order
    measure: HelpMeasure
    description: str  # what was measured, in one line


@dataclass(frozen=True)
class Dependencies:
    """Which words of one input help to predict which, measured by the model itself."""

    units: tuple[str, ...]  # the tokens, or the words, of the input
    sentence: tuple[int, ...]  # 0 for sentence A, 1 for B, -1 for a special token
    help: WordDependencies
    """How much each word helps to predict each other one, and how that was measured."""
    signature: Signature  # where the result comes from: model, versions, device, input

    __repr__ = describe

    def to_frame(self) -> pd.DataFrame:
        """One row a measured pair of words: index and text of both, help, and the target."""
        measured = np.nonzero(~np.isnan(self.help.values))
        places = np.array(self.help.places, int)
        query = places[measured[0]]
        key = places[measured[1]]
        tokens = np.array(self.units, object)
        columns = {
            "query": query,
            "query_token": tokens[query],
            "key": key,
            "key_token": tokens[key],
            "help": self.help.values[measured],
            "target": self.help.shares[measured],
        }
        about = {"units": list(self.units), "sentence": list(self.sentence)}
        return signed_frame(columns, self.signature, DEPENDENCIES_TABLE, **about)


Positions = Literal["kept", "shuffled"]
Segments = Literal["kept", "swapped", "zeroed"]
PredictionKind = Literal["words", "classes", "next-sentence", "vectors"]
LIKELIEST = 5  # how many of the likeliest words are listed for each hidden token


@dataclass(frozen=True)
class Change:
    """Some changes at once; without any, the input and the model are as they are."""

    hidden: tuple[int, ...] = ()
    """The places of tokens that are hidden behind the mask token, in ascending order."""
    positions: Positions = "kept"
    """Whether words stand where they are written, or are shuffled by the seed."""
    segments: Segments = "kept"
    """The segment ids that the model reads: its own, 0 and 1 exchanged, or all 0."""
    off: tuple[Head, ...] = ()
    """Heads that are switched off, in ascending order: later layers read nothing of theirs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(sorted(set(self.hidden))))
        object.__setattr__(self, "off", tuple(sorted(set(self.off))))

    @property
    def changes_model(self) -> bool:
        """Whether anything but hidden words is changed.

        What the model says before and after may then differ.
        """
        return bool(self.off) or (self.positions, self.segments) != ("kept", "kept")

    def notes(self, tokens: tuple[str, ...], seed: int) -> tuple[str, ...]:
        """A line for each change; `tokens` are those of the input as it was."""
        lines = []
        if self.hidden:
            hidden = ", ".join(f"{tokens[place]} ({place})" for place in self.hidden)
            lines.append(f"hidden behind the mask token: {hidden}")
        if self.positions == "shuffled":
            lines.append(f"the words' positions are shuffled, by seed {seed}")
        if self.segments != "kept":
            lines.append(f"segments are {self.segments}")
        if self.off:
            lines.append(f"heads switched off: {', '.join(head.name for head in self.off)}")
        return tuple(lines)


@dataclass(frozen=True)
class HiddenToken:
    """What a masked-LM head puts in place of one hidden token, before and after a change."""

    place: int
    truth: str  # the token that is hidden
    truth_before: float
    truth_after: float
    before: tuple[tuple[str, float], ...]  # the likeliest tokens, most likely first
    after: tuple[tuple[str, float], ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values, whose texts a page can show."""
        return {
            "place": self.place,
            "truth": plain(self.truth),
            "truthBefore": self.truth_before,
            "truthAfter": self.truth_after,
            "before": [[plain(token), p] for token, p in self.before],
            "after": [[plain(token), p] for token, p in self.after],
        }


@dataclass(frozen=True)
class Prediction:
    """One thing that the model says, before and after a change.

    Hidden words are hidden before it, too.

    Of `words` the hidden tokens, of `classes` and `next-sentence` the classes, of `vectors` how far
    tokens turned.
    """

    kind: PredictionKind
    words: tuple[HiddenToken, ...] = ()
    classes: tuple[tuple[str, float, float], ...] = ()
    """All names, with their probabilities before and after."""
    turned: tuple[float, ...] = ()
    """Of each token, 1 - cosine between its last hidden states before and after."""
    why_none: str = ""  # why there is nothing to say, and what to do about it; empty where there is

    def as_json(self) -> dict[str, Any]:
        """Plain values, whose texts a page can show."""
        classes = [
            {"name": plain(name), "before": before, "after": after}
            for name, before, after in self.classes
        ]
        return {
            "kind": self.kind,
            "words": [word.as_json() for word in self.words],
            "classes": classes,
            "turned": list(self.turned),
            "whyNone": plain(self.why_none),
        }
