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
    """How much each word that was asked about helps to predict each other one."""

    __repr__ = shaped

    values: NDArray[np.float64]
    """How much hiding the key costs the prediction of the query: in nats for `cpmi`, in corrected distance for
    `distance`; NaN where it was not measured. Shape: [query, key], both over the words that were asked about."""
    measure: HelpMeasure
    sequences: int
    """Hidden sequences that were run."""
    places: tuple[int, ...]
    """Which units of the input were asked about, in order."""
    words_in_all: int
    units: int
    """Of the input, special tokens included."""
    by_length: bool = False
    """Whether so few words were asked about because the input is long, and nobody asked for more."""

    @property
    def words(self) -> int:
        """Words among which help was looked for."""
        return len(self.places)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The values among all units; NaN where nothing was asked. Shape: [query, key]."""
        return self._among_units(self.values, slice(None), np.nan)

    @property
    def description(self) -> str:
        """What was measured, in one line."""
        how = {"cpmi": "nats by the masked-LM head", "distance": "distance of hidden states"}[self.measure]
        words, sequences = counted(self.words_in_all, "word"), counted(self.sequences, "hidden sequence")
        more = " (--predictive-words asks about more)" if self.by_length else ""
        return f"predictive: {how}, {self.words:,} of {words}{more}, {sequences}."

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each row of the values scaled so that the best helper is 1; zero where none helps enough.

        Shape: [query, key], in [0, 1], both over the words that were asked about.
        """
        helps = np.nan_to_num(self.values, nan=0).clip(0)
        best = helps.max(-1, keepdims=True, initial=0)
        least = _LEAST_HELP if self.measure == "cpmi" else np.finfo(np.float64).tiny
        return np.where(best >= least, helps / np.maximum(best, least), 0)

    @property
    def target(self) -> NDArray[np.float64]:
        """The pattern's target: the shares among all units. Shape: [query, key], in [0, 1]."""
        return self.targets_of(slice(None))

    def targets_of(self, queries: slice) -> NDArray[np.float64]:
        """Some rows of the target. Shape: [query, key]."""
        return self._among_units(self.shares, queries, 0)

    def _among_units(self, values: NDArray[np.float64], queries: slice, elsewhere: float) -> NDArray[np.float64]:
        """Rows of some queries over all units, of values over the words that were asked about."""
        start, stop, _ = queries.indices(self.units)
        rows, places = np.full((stop - start, self.units), elsewhere, np.float64), np.array(self.places, dtype=np.int64)
        inside = (places >= start) & (places < stop)
        rows[np.ix_(places[inside] - start, places)] = values[inside]
        return rows


@dataclass(frozen=True)
class Dependencies:
    """Which words of one input help to predict which, by the model's own word."""

    units: tuple[str, ...]
    """The tokens, or the words, of the input."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token."""
    help: Help
    """How much each word helps to predict each other one: `.values` [word, helper], and how that was measured."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""

    def __repr__(self) -> str:
        known = np.nan_to_num(self.help.values, nan=-np.inf)
        order = np.dstack(np.unravel_index(np.argsort(-known, axis=None), known.shape))[0][:_SHOWN]
        asked = [self.units[place] for place in self.help.places]
        best = [
            f"{asked[key]} helps {asked[query]} ({known[query, key]:.2f})"
            for query, key in order
            if known[query, key] > 0
        ]
        told = ", ".join(best) or "no word helps"
        return lines(self, self.signature, None, " ".join(self.units), self.help.description, told)

    def to_frame(self) -> pd.DataFrame:
        """One row a measured pair of words: both by index and text, the help, and the pattern's target."""
        import pandas as pd

        asked = np.nonzero(~np.isnan(self.help.values))
        queries, keys = (np.array(self.help.places)[numbers] for numbers in asked)
        frame = pd.DataFrame(
            {
                "model": self.signature.model,
                "query": queries,
                "query_token": [self.units[query] for query in queries],
                "key": keys,
                "key_token": [self.units[key] for key in keys],
                "help": self.help.values[asked],
                "target": self.help.shares[asked],
            }
        )
        frame.attrs = {"signature": asdict(self.signature), "units": list(self.units), "sentence": list(self.sentence)}
        return frame
