"""What attnscan finds, as frozen tables: numpy and pandas, no torch.

Everything that shows or writes results depends on this module alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.options import THRESHOLD, Measure

if TYPE_CHECKING:
    import pandas as pd

    from attnscan.attention import Attention

MIXED = "mixed"
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ScoreTable:
    """Every head's score on every pattern. Shape: each [layer, head, pattern]; NaN if no query was eligible."""

    score: FloatArray
    """Mean weight on target over all eligible queries, in [0, 1]."""
    chance: FloatArray
    """The same mean, had every query spread its weight evenly over the keys it may see."""
    se: FloatArray
    """Standard error of the score, clustered by pair; NaN below two pairs."""
    n: IntArray
    """Eligible queries."""
    pairs: IntArray
    """Pairs that had any."""
    share: FloatArray
    """For a pattern that is a part of a wider one: its part of that one's weight, on the same queries."""

    @cached_property
    def above_chance(self) -> FloatArray:
        """(score - chance) / (1 - chance): 0 at chance, 1 at perfect; NaN where chance is 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            above = (self.score - self.chance) / (1 - self.chance)
        return np.where(self.chance < 1 - 1e-9, above, np.nan)

    def ranked(self, pattern: int) -> IntArray:
        """All heads, best first by score on a pattern, those without one last.

        Shape: [layer x head], heads counted layer by layer.
        """
        return np.argsort(-np.nan_to_num(self.score[..., pattern], nan=-np.inf).ravel(), kind="stable")


@dataclass(frozen=True)
class Scores:
    """The scores of every head of a model."""

    patterns: tuple[str, ...]
    part_of: tuple[str | None, ...]
    every_key: ScoreTable
    """With the weights as they are."""
    words_only: ScoreTable
    """What each head does otherwise: weights on special tokens removed, rows renormalised over words."""
    entropy: FloatArray
    """Mean row entropy of all words' weights, in nats. Shape: [layer, head]."""

    @property
    def grid(self) -> tuple[int, int]:
        """Layers and heads."""
        layers, heads = self.entropy.shape
        return layers, heads

    def ranked_labels(self, table: ScoreTable, rank: int, threshold: float) -> NDArray[np.str_]:
        """The pattern that each head follows most (rank 0) or next (rank 1), or `mixed`.

        Patterns compete by how far they are above chance. A part of a wider pattern does not compete: it
        takes the wider one's heads where two thirds of their weight lie on it.

        Shape: [layer, head].
        """
        above = np.where(np.isnan(table.above_chance), -np.inf, table.above_chance)
        competing = [p for p, whole in enumerate(self.part_of) if whole not in self.patterns]
        if rank >= len(competing):
            return np.full(self.grid, MIXED)
        order = np.argsort(-above[..., competing], axis=-1, kind="stable")[..., rank]
        winner = np.take(competing, order)
        best = np.take_along_axis(above, winner[..., None], axis=-1)[..., 0]
        labels: NDArray[np.str_] = np.where(best >= threshold, np.asarray(self.patterns)[winner], MIXED)
        for p, whole in enumerate(self.part_of):
            if whole in self.patterns:
                labels = np.where((labels == whole) & (table.share[..., p] >= 2 / 3), self.patterns[p], labels)
        return labels


@dataclass(frozen=True)
class Signature:
    """Where a result comes from: what has to be equal for two results to be compared."""

    model: str
    revision: str | None
    attnscan: str
    torch: str
    transformers: str | None
    dtype: str
    device: str
    unit: str
    pattern_set: str
    input_hash: str
    read_by: str
    """How the weights were had: `tap`, `output_attentions` or `file`."""
    predictive: str
    """How predictive words were found: `cpmi`, `distance` or `off`."""
    pairs_read: int = 0
    pairs_truncated: int = 0
    pairs_skipped: int = 0

    @property
    def counts(self) -> str:
        """How many pairs were read, and of these cut and skipped, if any were."""
        counts = [f"{self.pairs_read:,} pairs"]
        counts += [f"{self.pairs_truncated:,} cut"] if self.pairs_truncated else []
        counts += [f"{self.pairs_skipped:,} skipped"] if self.pairs_skipped else []
        return ", ".join(counts)


@dataclass(frozen=True)
class Classification:
    """What every head does on one input."""

    units: tuple[str, ...]
    """The tokens, or the words, that were scored."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token, -2 for padding."""
    scores: Scores
    signature: Signature
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Patterns that were not looked for and why, as against those that no word of the input was eligible for."""
    notes: tuple[str, ...] = ()
    """What else to know of how the scores were had, a line each."""
    threshold: float = THRESHOLD
    """How far above chance a label's pattern must be."""
    attention: Attention | None = field(default=None, repr=False, compare=False)
    """The input's weights, queries and keys, if they were kept: what a notebook draws them from."""

    @cached_property
    def label(self) -> NDArray[np.str_]:
        """The pattern that each head follows. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.every_key, 0, self.threshold)

    @cached_property
    def runner_up(self) -> NDArray[np.str_]:
        """The second one. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.every_key, 1, self.threshold)

    @cached_property
    def content_label(self) -> NDArray[np.str_]:
        """What each head does when it does not attend to special tokens. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.words_only, 0, self.threshold)

    @cached_property
    def parking(self) -> FloatArray:
        """How much each head rests on delimiters, in [0, 1]; 0 where the input has none. Shape: [layer, head]."""
        if "delimiter" not in self.scores.patterns:
            return np.zeros(self.scores.grid)
        return np.nan_to_num(self.scores.every_key.score[..., self.scores.patterns.index("delimiter")])

    def _repr_html_(self) -> str:
        """What a notebook shows: the labels and scores and, where the attention was kept, the page of `report`."""
        from attnscan.views.notebook import classification_html

        return classification_html(self)

    def ranking(self, pattern: str | None = None, *, without_delimiters: bool = False) -> IntArray:
        """All heads, best first: by score on `pattern`, or without one by how far their label is above chance.

        Shape: [layer x head], heads counted layer by layer.
        """
        table = self.scores.words_only if without_delimiters else self.scores.every_key
        if pattern is not None:
            return table.ranked(self.scores.patterns.index(pattern))
        strength = np.nan_to_num(table.above_chance, nan=-np.inf).max(-1)
        return np.argsort(-strength.ravel(), kind="stable")

    def to_frame(self, patterns: Sequence[str] | None = None, *, without_delimiters: bool = False) -> pd.DataFrame:
        """One row a head: names, labels, scores of `patterns` (default: all), entropy."""
        import pandas as pd

        layers, heads = self.scores.grid
        table = self.scores.words_only if without_delimiters else self.scores.every_key
        layer, head = np.divmod(np.arange(layers * heads), heads)
        columns: dict[str, Any] = {"model": self.signature.model, "layer": layer, "head": head}
        columns |= {name: getattr(self, name).ravel() for name in ("label", "runner_up", "content_label")}
        for pattern in patterns or self.scores.patterns:
            columns[pattern] = table.score[..., self.scores.patterns.index(pattern)].ravel()
        frame = pd.DataFrame(columns | {"entropy": self.scores.entropy.ravel()})
        frame.attrs = {
            "signature": asdict(self.signature),
            "units": list(self.units),
            "sentence": list(self.sentence),
            "not_measured": dict(self.not_measured),
            "notes": list(self.notes),
        }
        return frame


@dataclass(frozen=True)
class Ranking:
    """Heads ranked for patterns, by many pairs."""

    scores: Scores
    signature: Signature

    def _repr_html_(self) -> str:
        """What a notebook shows: the best heads of each pattern."""
        from attnscan.views.notebook import ranking_html

        return ranking_html(self)

    def order(self, pattern: str, *, without_delimiters: bool = False) -> IntArray:
        """All heads, best first by score on `pattern`. Shape: [layer x head], heads counted layer by layer."""
        return self.table(without_delimiters).ranked(self.scores.patterns.index(pattern))

    def table(self, without_delimiters: bool) -> ScoreTable:
        """The scores with every key, or with words alone."""
        return self.scores.words_only if without_delimiters else self.scores.every_key

    def to_frame(
        self, patterns: Sequence[str] | None = None, top: int | None = None, *, without_delimiters: bool = False
    ) -> pd.DataFrame:
        """One row for each head of each pattern, ranked; at most `top` heads a pattern."""
        import pandas as pd

        table, heads = self.table(without_delimiters), self.scores.grid[1]
        parts = []
        for pattern in patterns or self.scores.patterns:
            order = self.order(pattern, without_delimiters=without_delimiters)[:top]
            p = self.scores.patterns.index(pattern)
            layer, head = np.divmod(order, heads)
            columns = {"model": self.signature.model, "pattern": pattern, "rank": np.arange(1, len(order) + 1)}
            columns |= {"layer": layer, "head": head}
            for name in ("score", "chance", "above_chance", "se", "n", "pairs"):
                columns[name] = getattr(table, name)[layer, head, p]
            parts.append(pd.DataFrame(columns))
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature)}
        return frame


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


_LEAST_HELP = 0.5  # in nats: a word whose best helper gives less is not eligible


@dataclass(frozen=True)
class Help:
    """How much each word helps to predict each other one.

    Shape: `matrix` is [query, key] over units: how much hiding the key costs the prediction of the query.
    In nats for `cpmi`, in corrected distance for `distance`; NaN where it was not measured.
    """

    matrix: NDArray[np.float64]
    measure: Measure
    sequences: int
    """Hidden sequences that were run."""
    words: int
    """Words among which help was looked for."""
    words_in_all: int

    @property
    def description(self) -> str:
        """What was measured, in one line."""
        how = {"cpmi": "nats by the masked-LM head", "distance": "distance of hidden states"}[self.measure]
        return f"predictive: {how}, {self.words} of {self.words_in_all} words, {self.sequences} hidden sequences."

    @property
    def target(self) -> NDArray[np.float64]:
        """The pattern's target: each row scaled so that the best helper is 1; zero where none helps enough.

        Shape: [query, key], in [0, 1].
        """
        helps = np.nan_to_num(self.matrix, nan=0).clip(0)
        best = helps.max(-1, keepdims=True)
        least = _LEAST_HELP if self.measure == "cpmi" else np.finfo(np.float64).tiny
        return np.where(best >= least, helps / np.maximum(best, least), 0)


@dataclass(frozen=True)
class Dependencies:
    """Which words of one input help to predict which, by the model's own word."""

    units: tuple[str, ...]
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token."""
    help: Help
    signature: Signature

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
