"""Sums over pairs: what travels between batches, processes and machines, and what it finishes into.

Sums, never averages: of each pair's weight on target S, its number of eligible queries n, their squares and their
product. Adding is all it takes to combine them, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from attnscan.results.scores import FloatArray, Scores, ScoreTable

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Sums:
    """Sums over pairs. Shape: each [layer, head, pattern], float64."""

    weight: FloatArray
    """Of S: a pair's weight on target, summed over its eligible queries."""
    weight2: FloatArray
    """Of S squared."""
    weight_n: FloatArray
    """Of S x n."""
    n: FloatArray
    """Of n: a pair's number of eligible queries."""
    n2: FloatArray
    """Of n squared."""
    chance: FloatArray
    """Of S, had every query spread its weight evenly over the keys it may see."""
    whole: FloatArray
    """Of the weight, on the same queries, on the wider target that this one is a part of."""
    pairs: FloatArray
    """Pairs with at least one eligible query."""

    @classmethod
    def of(cls, weight: FloatArray, n: FloatArray, chance: FloatArray, whole: FloatArray) -> Sums:
        """Shape: each [pair, layer, head, pattern]."""
        each = (weight, weight**2, weight * n, n, n**2, chance, whole, (n > 0).astype(float))
        return cls(*(values.sum(0) for values in each))

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def finish(self) -> ScoreTable:
        """The means and their standard errors, clustered by pair."""
        with np.errstate(invalid="ignore", divide="ignore"):
            score = self.weight / self.n
            spread = self.weight2 - 2 * score * self.weight_n + score**2 * self.n2
            se = np.where(self.pairs > 1, np.sqrt(np.maximum(spread, 0)) / self.n, np.nan)
            return ScoreTable(
                score=score,
                chance=self.chance / self.n,
                se=se,
                n=self.n.astype(np.int64),
                pairs=self.pairs.astype(np.int64),
                share=self.weight / self.whole,
            )


@dataclass(frozen=True)
class ScoreSums:
    """All that a scan has to remember of the pairs it has seen."""

    patterns: tuple[str, ...]
    part_of: tuple[str | None, ...]
    every_key: Sums
    """With the weights as they are."""
    words_only: Sums
    """With weights on special tokens removed and each row renormalised over words."""
    entropy: FloatArray
    """Of all words' row entropies, in nats. Shape: [layer, head]."""
    words: float
    """How many words that were."""

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(
            patterns=self.patterns,
            part_of=self.part_of,
            every_key=self.every_key + other.every_key,
            words_only=self.words_only + other.words_only,
            entropy=self.entropy + other.entropy,
            words=self.words + other.words,
        )

    def finish(self) -> Scores:
        """The scores of every head and pattern."""
        return Scores(
            patterns=self.patterns,
            part_of=self.part_of,
            every_key=self.every_key.finish(),
            words_only=self.words_only.finish(),
            entropy=self.entropy / self.words if self.words else np.full_like(self.entropy, np.nan),
        )


@dataclass
class DivergenceSums:
    """Divergences summed over pairs, for a mean and an error clustered by pair. Shape: each [head, head]."""

    total: FloatArray
    """Of J: a pair's divergences, summed over its queries."""
    squares: FloatArray
    product: FloatArray
    """Of J x n, n being the pair's number of queries."""
    n: int = 0
    n2: int = 0
    pairs: int = 0

    @classmethod
    def of(cls, heads: int) -> DivergenceSums:
        """Nothing yet."""
        return cls(np.zeros((heads, heads)), np.zeros((heads, heads)), np.zeros((heads, heads)))

    def add(self, found: FloatArray, n: int) -> None:
        """Add one pair of so many queries."""
        self.total += found
        self.squares += found**2
        self.product += found * n
        self.n, self.n2, self.pairs = self.n + n, self.n2 + n**2, self.pairs + 1

    def mean(self) -> FloatArray:
        """Over all queries, in nats."""
        return self.total / self.n

    def se(self) -> FloatArray:
        """Its standard error, clustered by pair; NaN below two pairs."""
        if self.pairs < 2:
            return np.full_like(self.total, np.nan)
        mean = self.mean()
        spread = self.squares - 2 * mean * self.product + mean**2 * self.n2
        error: FloatArray = np.sqrt(spread.clip(0)) / self.n
        return error
