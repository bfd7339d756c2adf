"""Sums over pairs that two models have both scored, for differences whose errors know that the pairs are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from attnscan.results.scores import FloatArray, Scores
from attnscan.scoring.sums import ScoreSums, Sums

PairSums = Mapping[str, FloatArray]
"""As `Scorer.pair_sums` names them. Shape: each [pair, layer, head, pattern]."""


@dataclass(frozen=True)
class _Products:
    """Sums of products between two models' weights S and counts n. Shape: each [layer, head, pattern]."""

    weights: FloatArray
    """Of S x S'."""
    weight_n: FloatArray
    """Of S x n'."""
    n_weight: FloatArray
    """Of n x S'."""
    counts: FloatArray
    """Of n x n'."""

    @classmethod
    def of(cls, one: PairSums, other: PairSums) -> _Products:
        (weight, n), (weight2, n2) = ((sums["every_key.weight"], sums["every_key.n"]) for sums in (one, other))
        return cls((weight * weight2).sum(0), (weight * n2).sum(0), (n * weight2).sum(0), (n * n2).sum(0))

    def __add__(self, other: _Products) -> _Products:
        return _Products(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def covariance(self, one: Sums, other: Sums) -> FloatArray:
        """Of the two models' scores, each a ratio clustered by pair."""
        with np.errstate(invalid="ignore", divide="ignore"):
            score, score2 = one.weight / one.n, other.weight / other.n
            spread = self.weights - score2 * self.weight_n - score * self.n_weight + score * score2 * self.counts
            found: FloatArray = spread / (one.n * other.n)
        return found


@dataclass(frozen=True)
class PairedSums:
    """What has been summed of pairs that both models have scored."""

    one: ScoreSums
    other: ScoreSums
    products: tuple[_Products, _Products, _Products]
    """Of one with itself, of one with the other, of the other with itself."""

    @classmethod
    def of(cls, one: PairSums, other: PairSums, like: ScoreSums) -> PairedSums:
        """Of some pairs, in the same order; `like` says what the patterns are."""
        products = (_Products.of(one, one), _Products.of(one, other), _Products.of(other, other))
        return cls(_summed(one, like), _summed(other, like), products)

    def __add__(self, other: PairedSums) -> PairedSums:
        a, b, c = (mine + theirs for mine, theirs in zip(self.products, other.products, strict=True))
        return PairedSums(self.one + other.one, self.other + other.other, (a, b, c))

    def finish(self) -> tuple[Scores, Scores, FloatArray]:
        """Both models' scores, and the standard error of their difference. Shape: [layer, head, pattern].

        Var(b - a) = Var(a) - 2 Cov(a, b) + Var(b), all three by one formula, so that equal models differ by exactly 0.
        """
        one, other = self.one.every_key, self.other.every_key
        own, both, theirs = self.products
        variance = own.covariance(one, one) - 2 * both.covariance(one, other) + theirs.covariance(other, other)
        enough = (one.pairs > 1) & (other.pairs > 1)
        error = np.where(enough, np.sqrt(variance.clip(0)), np.nan)
        return self.one.finish(), self.other.finish(), error


def _summed(sums: PairSums, like: ScoreSums) -> ScoreSums:
    """Summed over pairs. Entropy is not among what is told of single pairs."""
    tables = [
        Sums.of(*(sums[f"{kind}.{name}"] for name in ("weight", "n", "chance", "whole")))
        for kind in ("every_key", "words_only")
    ]
    grid = sums["every_key.n"].shape[1:3]
    return ScoreSums(like.patterns, like.part_of, tables[0], tables[1], np.full(grid, np.nan), 0.0)
