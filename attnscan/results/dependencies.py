"""Which words help the model to predict which others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscan.results.shown import lines, shaped
from attnscan.results.signature import Signature
from attnscan.results.terms import HelpMeasure, counted

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 4  # pairs of words
_LEAST_HELP = 0.5  # in nats: a word whose best helper gives less is not eligible


@dataclass(frozen=True)
class Help:
    """How much each word helps to predict each other one.

    Shape: `matrix` is [query, key] over units: how much hiding the key costs the prediction of the query.
    In nats for `cpmi`, in corrected distance for `distance`; NaN where it was not measured.
    """

    __repr__ = shaped

    matrix: NDArray[np.float64]
    measure: HelpMeasure
    sequences: int
    """Hidden sequences that were run."""
    words: int
    """Words among which help was looked for."""
    words_in_all: int

    @property
    def description(self) -> str:
        """What was measured, in one line."""
        how = {"cpmi": "nats by the masked-LM head", "distance": "distance of hidden states"}[self.measure]
        words, sequences = counted(self.words_in_all, "word"), counted(self.sequences, "hidden sequence")
        return f"predictive: {how}, {self.words:,} of {words}, {sequences}."

    @property
    def target(self) -> NDArray[np.float64]:
        """The pattern's target: each row scaled so that the best helper is 1; zero where none helps enough.

        Shape: [query, key], in [0, 1].
        """
        return self.targets_of(slice(None))

    def targets_of(self, queries: slice) -> NDArray[np.float64]:
        """Some rows of the target. Shape: [query, key]."""
        helps = np.nan_to_num(self.matrix[queries], nan=0).clip(0)
        best = helps.max(-1, keepdims=True)
        least = _LEAST_HELP if self.measure == "cpmi" else np.finfo(np.float64).tiny
        return np.where(best >= least, helps / np.maximum(best, least), 0)


@dataclass(frozen=True)
class Dependencies:
    """Which words of one input help to predict which, by the model's own word."""

    units: tuple[str, ...]
    """The tokens, or the words, of the input."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token."""
    help: Help
    """How much each word helps to predict each other one: `.matrix` [word, helper], and how that was measured."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""

    def __repr__(self) -> str:
        known = np.nan_to_num(self.help.matrix, nan=-np.inf)
        order = np.dstack(np.unravel_index(np.argsort(-known, axis=None), known.shape))[0][:_SHOWN]
        best = [
            f"{self.units[key]} helps {self.units[query]} ({known[query, key]:.2f})"
            for query, key in order
            if known[query, key] > 0
        ]
        told = ", ".join(best) or "no word helps"
        return lines(self, self.signature, None, " ".join(self.units), self.help.description, told)

    def to_frame(self) -> pd.DataFrame:
        """One row a measured pair of words: both by index and text, the help, and the pattern's target."""
        import pandas as pd

        queries, keys = np.nonzero(~np.isnan(self.help.matrix))
        frame = pd.DataFrame(
            {
                "model": self.signature.model,
                "query": queries,
                "query_token": [self.units[query] for query in queries],
                "key": keys,
                "key_token": [self.units[key] for key in keys],
                "help": self.help.matrix[queries, keys],
                "target": self.help.target[queries, keys],
            }
        )
        frame.attrs = {"signature": asdict(self.signature), "units": list(self.units), "sentence": list(self.sentence)}
        return frame
