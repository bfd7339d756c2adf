"""Scores as frozen tables: every head on every pattern, its labels by them. Numpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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

    def table(self, without_delimiters: bool) -> ScoreTable:
        """The scores with every key, or with words alone."""
        return self.words_only if without_delimiters else self.every_key

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
