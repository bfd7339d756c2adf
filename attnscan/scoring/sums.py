"""Sums over pairs: what travels between batches, processes and machines, and what it finishes into.

Sums, never averages: of each pair's S and n, where S is a weight on target, a divergence or a loss, and n says of how
many queries, words or answers it is the sum; of their squares and their product. Adding is all it takes to combine
them, in any order, and the ratio ΣS / Σn and its standard error follow from them by one rule, `RatioProducts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Self

import numpy as np

from attnscan.results.scores import FloatArray, Scores, ScoreTable

PairSums = Mapping[str, FloatArray]
"""Pairs' own sums, as `Scorer.pair_sums` names them. Shape: each [pair, layer, head, pattern]."""


_over_pairs = partial(np.sum, axis=0)


def _root(variance: FloatArray) -> FloatArray:
    error: FloatArray = np.sqrt(variance.clip(0))
    return error


@dataclass(frozen=True)
class RatioSums:
    """Sums over pairs, of which a ratio ΣS / Σn and its error follow.

    Shape: any, float64; those of n may be smaller, if they broadcast.
    """

    total: FloatArray
    """Of S."""
    squares: FloatArray
    """Of S squared."""
    products: FloatArray
    """Of S x n."""
    n: FloatArray
    """Of n."""
    n_squares: FloatArray
    """Of n squared."""
    pairs: FloatArray
    """Pairs with an n above zero."""

    @classmethod
    def of(
        cls, total: FloatArray, n: FloatArray, *more: FloatArray, add: Callable[..., FloatArray] = _over_pairs
    ) -> Self:
        """The sums of some pairs, and of whatever `more` a subclass adds up.

        Shape: each [pair, ...]; anything that `add` makes sums of, in place of adding over the first axis.
        """
        terms = (total, total**2, total * n, n, n**2, (n > 0).astype(float), *more)
        return cls(*(add(values) for values in terms))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def ratio(self) -> FloatArray:
        """ΣS / Σn; NaN where n is zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio: FloatArray = self.total / self.n
            return ratio

    @property
    def se(self) -> FloatArray:
        """The ratio's standard error, clustered by pair: √Σ(S - ratio·n)² / Σn; NaN below two pairs."""
        return _root(self._variance)

    def se_of_difference(self, other: RatioSums, products: RatioProducts) -> FloatArray:
        """The standard error of this ratio less another over the same pairs; NaN if either has fewer than two.

        Var(a - b) = Var(a) - 2 Cov(a, b) + Var(b), all three by one rule, so that equal ratios differ by exactly 0.
        """
        variance = self._variance - 2 * products.covariance(self, other) + other._variance
        return _root(variance)

    @property
    def _variance(self) -> FloatArray:
        """May lie below zero by what rounding leaves of it."""
        with_itself = RatioProducts(self.squares, self.products, self.products, self.n_squares)
        return np.where(self.pairs > 1, with_itself.covariance(self, self), np.nan)


@dataclass(frozen=True)
class RatioProducts:
    """Sums over pairs of the products of two ratios' S and n: how far the two vary together.

    Shape: that of their `RatioSums`, each.
    """

    totals: FloatArray
    """Of S x S'."""
    total_n: FloatArray
    """Of S x n'."""
    n_total: FloatArray
    """Of n x S'."""
    counts: FloatArray
    """Of n x n'."""

    @classmethod
    def of(cls, total: FloatArray, n: FloatArray, other_total: FloatArray, other_n: FloatArray) -> RatioProducts:
        """The products of some pairs. Shape: each [pair, ...]."""
        terms = (total * other_total, total * other_n, n * other_total, n * other_n)
        return cls(*(_over_pairs(values) for values in terms))

    def __add__(self, other: RatioProducts) -> RatioProducts:
        return RatioProducts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def covariance(self, one: RatioSums, other: RatioSums) -> FloatArray:
        """Of two ratios r and r' over the same pairs: Σ(S - r·n)(S' - r'·n') / (Σn Σn'). NaN where an n is zero."""
        r, r2 = one.ratio, other.ratio
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = self.totals - (r2 * self.total_n + r * self.n_total) + r * r2 * self.counts
            covariance: FloatArray = spread / (one.n * other.n)
            return covariance


@dataclass(frozen=True)
class Sums(RatioSums):
    """Sums over pairs of S, a pair's weight on target, and n, its eligible queries.

    Shape: each [layer, head, pattern].
    """

    chance: FloatArray
    """Of S, had every query spread its weight evenly over the keys it may see."""
    whole: FloatArray
    """Of the weight, on the same queries, on the wider target that this one is a part of."""

    def finish(self) -> ScoreTable:
        """The means and their standard errors, clustered by pair."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return ScoreTable(
                score=self.ratio,
                chance=self.chance / self.n,
                se=self.se,
                n=self.n.astype(np.int64),
                pairs=self.pairs.astype(np.int64),
                share=self.total / self.whole,
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

    @classmethod
    def of(
        cls,
        pairs: PairSums,
        patterns: tuple[str, ...],
        part_of: tuple[str | None, ...],
        entropy: FloatArray,
        words: float,
    ) -> ScoreSums:
        """The sums of some pairs; `entropy` and `words` are theirs together."""
        every_key, words_only = (
            Sums.of(*(pairs[f"{kind}.{name}"] for name in ("weight", "n", "chance", "whole")))
            for kind in ("every_key", "words_only")
        )
        return cls(patterns, part_of, every_key, words_only, entropy, words)

    def __add__(self, other: ScoreSums) -> ScoreSums:
        added = ("every_key", "words_only", "entropy", "words")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in added})

    def finish(self) -> Scores:
        """The scores of every head and pattern."""
        return Scores(
            patterns=self.patterns,
            part_of=self.part_of,
            every_key=self.every_key.finish(),
            words_only=self.words_only.finish(),
            entropy=self.entropy / self.words if self.words else np.full_like(self.entropy, np.nan),
        )
