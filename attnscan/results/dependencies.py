"""Which words help the model to predict which others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.signature import Signature, described
from attnscan.results.terms import HelpMeasure, counted

if TYPE_CHECKING:
    import pandas as pd

_LEAST_HELP = 0.5  # in nats: a word whose best helper gives less is not eligible


@dataclass(frozen=True)
class Help:
    """How much each word that was asked about helps to predict each other one."""

    values: NDArray[np.float64]
    """How much hiding the key costs the prediction of the query: in nats for `cpmi`, in corrected distance for
    `distance`; NaN where it was not measured. Shape: [query, key], both over the words that were asked about."""
    measure: HelpMeasure
    sequences: int  # hidden sequences that were run
    places: tuple[int, ...]  # which units of the input were asked about, in order
    words_in_all: int
    units: int  # of the input, special tokens included
    by_length: bool = False  # whether few words were asked about because the input is long, and nobody asked for more

    @property
    def description(self) -> str:
        """What was measured, in one line."""
        how = {"cpmi": "nats by the masked-LM head", "distance": "distance of hidden states"}[self.measure]
        words, sequences = counted(self.words_in_all, "word"), counted(self.sequences, "hidden sequence")
        more = " (--predictive-words asks about more)" if self.by_length else ""
        return f"predictive: {how}, {len(self.places):,} of {words}{more}, {sequences}."

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each row of the values scaled so that the best helper is 1, in [0, 1]; zero where none helps enough."""
        helps = np.nan_to_num(self.values, nan=0).clip(0)
        best = helps.max(-1, keepdims=True, initial=0)
        least = _LEAST_HELP if self.measure == "cpmi" else np.finfo(np.float64).tiny
        return np.where(best >= least, helps / np.maximum(best, least), 0)

    def targets_of(self, queries: slice) -> NDArray[np.float64]:
        """The pattern's target, some rows of it: the shares among all units. Shape: [query, key], in [0, 1]."""
        start, stop, _ = queries.indices(self.units)
        rows, inside = np.zeros((stop - start, self.units)), slice(*np.searchsorted(self.places, (start, stop)))
        places = np.array(self.places, int)
        rows[np.ix_(places[inside] - start, places)] = self.shares[inside]
        return rows


@dataclass(frozen=True)
class Dependencies:
    """Which words of one input help to predict which, by the model's own word."""

    units: tuple[str, ...]  # the tokens, or the words, of the input
    sentence: tuple[int, ...]  # 0 for sentence A, 1 for B, -1 for a special token
    help: Help  # how much each word helps to predict each other one: `.values` [word, helper], and how it was measured
    signature: Signature  # where the result comes from: model, versions, device, input

    __repr__ = described

    def to_frame(self) -> pd.DataFrame:
        """One row a measured pair of words: both by index and text, the help, and the pattern's target."""
        import pandas as pd

        asked = np.nonzero(~np.isnan(self.help.values))
        columns: dict[str, Any] = {"model": self.signature.model}
        for name, numbers in zip(("query", "key"), asked, strict=True):
            places = np.array(self.help.places, int)[numbers]
            columns |= {name: places, f"{name}_token": np.array(self.units, object)[places]}
        frame = pd.DataFrame({**columns, "help": self.help.values[asked], "target": self.help.shares[asked]})
        frame.attrs = {"signature": asdict(self.signature), "units": list(self.units), "sentence": list(self.sentence)}
        return frame
