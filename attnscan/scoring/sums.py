"""Sums over pairs: what travels between batches, processes and machines, and what it finishes into.

Sums, never averages: of each pair's S and n, where S is a weight on target, a divergence or a loss, and n says of how
many queries, words or answers it is the sum; of their squares and their product. Adding is all it takes to combine
them, in any order, and the ratio ΣS / Σn and its standard error follow from them by one rule, `RatioProducts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Self, cast

import numpy as np

from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray, Scores, ScoreTable
from attnscan.results.terms import Scored

PairSums = Mapping[str, FloatArray]
"""Pairs' own sums, as `Scorer.pair_sums` names them. Shape: each [pair, layer, head, pattern]."""


_over_pairs = partial(np.sum, axis=0)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """The sum over pairs of two arrays' products."""
    dot: FloatArray = np.einsum("i...,i...->...", a, b)
    return dot


def _root(variance: FloatArray) -> FloatArray:
    error: FloatArray = np.sqrt(variance.clip(0))
    return error


def added(a: Any, b: Any) -> Any:
    """Add two sums: mappings name by name; None is the sum of nothing, and a tuple says what both are sums of."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Mapping):
        return {**a, **{name: added(a.get(name), values) for name, values in b.items()}}
    if isinstance(a, tuple):
        assert a == b
        return a
    return a + b


class Adding:
    """A record of sums, which add field by field."""

    def __add__(self, other: Self) -> Self:
        names = [f.name for f in fields(cast(Any, self))]
        return type(self)(*(added(getattr(self, name), getattr(other, name)) for name in names))


@dataclass(frozen=True)
class RatioSums(Adding):
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
        if add is _over_pairs:  # without an array of every pair's products
            squares, products, n_squares = (_dot(*both) for both in ((total, total), (total, n), (n, n)))
            pairs = (n > 0).sum(0, dtype=np.float64)
        else:
            squares, products, n_squares, pairs = map(add, (total**2, total * n, n**2, (n > 0).astype(float)))
        return cls(add(total), squares, products, add(n), n_squares, pairs, *map(add, more))

    @property
    def ratio(self) -> FloatArray:
        """ΣS / Σn; NaN where n is zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio: FloatArray = self.total / self.n
            return ratio

    @property
    def se(self) -> FloatArray:
        """The ratio's standard error, clustered by pair: √(K/(K-1)) √Σ(S - ratio·n)² / Σn, of K pairs; NaN below two.

        Source: the linearized variance of a ratio of cluster totals, Cochran, Sampling Techniques (1977), 6.4.
        """
        return _root(self._variance)

    @property
    def effective_pairs(self) -> FloatArray:
        """(Σn)² / Σn²: so many pairs of one size would tell as much; NaN where n is zero.

        Source: Kish, Survey Sampling (1965), for the effective size of an unequally weighted sample.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            effective: FloatArray = self.n**2 / self.n_squares
            return effective

    def se_of_difference(self, other: RatioSums, products: RatioProducts) -> FloatArray:
        """The standard error of this ratio less another over the same pairs; NaN if either has fewer than two.

        Var(a - b) = Var(a) - 2 Cov(a, b) + Var(b), all three by one rule, so that equal ratios differ by exactly 0.
        """
        variance = self._variance - 2 * products.covariance(self, other) + other._variance
        return _root(variance)

    @property
    def _variance(self) -> FloatArray:
        """May lie below zero by what rounding leaves of it."""
        return RatioProducts(self.squares, self.products, self.products, self.n_squares).covariance(self, self)

    @property
    def _for_few(self) -> FloatArray:
        """√(K/(K-1)) of K pairs: by how much errors about a fitted ratio are too small. NaN below two pairs."""
        return np.sqrt(self.pairs / np.where(self.pairs > 1, self.pairs - 1, np.nan))


@dataclass(frozen=True)
class RatioProducts(Adding):
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
        return cls(_dot(total, other_total), _dot(total, other_n), _dot(n, other_total), _dot(n, other_n))

    def covariance(self, a: RatioSums, b: RatioSums) -> FloatArray:
        """Of two ratios r and r' over the same K pairs: K/(K-1) Σ(S - r·n)(S' - r'·n') / (Σn Σn').

        NaN where an n is zero, or there are fewer than two pairs.
        """
        r, r2 = a.ratio, b.ratio
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = self.totals - (r2 * self.total_n + r * self.n_total) + r * r2 * self.counts
            covariance: FloatArray = spread / (a.n * b.n) * a._for_few * b._for_few
            return covariance


@dataclass(frozen=True)
class HeadProducts(Adding):
    """Sums over pairs of the products of every two heads' S and n, pattern by pattern.

    By them the difference between any two heads has an error of its own, often much smaller than two independent
    errors would give: a pair that is hard for one head is hard for its neighbour.
    Shape: each [pattern, layer x head, layer x head].
    """

    totals: FloatArray
    """Of S x S'."""
    total_n: FloatArray
    """Of S x n'."""
    counts: FloatArray
    """Of n x n'."""

    @classmethod
    def of(cls, total: FloatArray, n: FloatArray) -> HeadProducts:
        """The products of some pairs. Shape: each [pair, layer, head, pattern]."""
        flat = (len(total), math.prod(total.shape[1:-1]), total.shape[-1])
        total, n = total.reshape(flat), n.reshape(flat)
        if (n == n[:, :1]).all():  # how many queries count seldom hangs on the head, and one column stands for all
            n = n[:, :1]
        # Laid out anew, since BLAS takes no matrix whose numbers stand apart
        total, n = (np.ascontiguousarray(np.moveaxis(values, -1, 0)) for values in (total, n))
        across = total.transpose(0, 2, 1), n.transpose(0, 2, 1)
        products = across[0] @ total, across[0] @ n, across[1] @ n
        return cls(*(np.broadcast_to(product, products[0].shape) for product in products))

    def se_between(self, sums: RatioSums) -> FloatArray:
        """The standard error of the difference between any two heads' ratios, given the heads' own sums."""

        def of_heads(values: FloatArray) -> FloatArray:
            return np.moveaxis(values.reshape(-1, values.shape[-1]), -1, 0)

        heads = [of_heads(getattr(sums, f.name)) for f in fields(RatioSums)]
        a, b = (RatioSums(*(np.expand_dims(values, axis) for values in heads)) for axis in (2, 1))
        products = RatioProducts(self.totals, self.total_n, self.total_n.transpose(0, 2, 1), self.counts)
        covariance = products.covariance(a, b)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        return _root(variance[:, :, None] - 2 * covariance + variance[:, None])


@dataclass(frozen=True)
class Sums(RatioSums):
    """Sums over pairs of S, a pair's weight on target, and n, its eligible queries.

    Shape: each [layer, head, pattern].
    """

    chance: FloatArray
    """Of S, had every query spread its weight evenly over the keys it may see."""
    whole: FloatArray
    """Of the weight, on the same queries, on the wider target that this one is a part of."""
    itself: FloatArray
    """Of S, as far as it lies on the query itself."""

    def finish(self, products: HeadProducts | None = None) -> ScoreTable:
        """The means and their standard errors, clustered by pair; with `products`, also those between two heads."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return ScoreTable(
                score=self.ratio,
                chance=self.chance / self.n,
                se=self.se,
                n=self.n.astype(np.int64),
                pairs=self.pairs.astype(np.int64),
                effective_pairs=self.effective_pairs,
                share=self.total / self.whole,
                itself=self.itself / self.n,
                se_between=None if products is None else products.se_between(self),
            )


KINDS = ("every_key", "words_only")
"""With the weights as they are; with weights on special tokens removed and each row renormalised over words."""
PAIR_SUMS = ("weight", "n", "chance", "whole", "itself")
"""What there is of each pair by each of the kinds, in the order in which `Sums.of` takes it."""


MOST_HEADS = 600
"""Of a model whose heads' products are kept: those of 384 heads and 7 patterns take 50 MB, those of 1,200 half a GB."""
_MOST_PRODUCTS = 1 << 22  # of pattern, head and head, so that many patterns of one's own take no more than ours


@dataclass(frozen=True)
class ScoreSums(Adding):
    """All that a scan has to remember of the pairs it has seen."""

    scored: tuple[Scored, ...]
    every_key: Sums
    words_only: Sums
    entropy: FloatArray
    """Of all words' row entropies, in nats. Shape: [layer, head]."""
    words: FloatArray
    """How many rows that were. Shape: [layer, head]."""
    products: Mapping[str, HeadProducts] | None = None
    """Of heads, for each of the `KINDS`, if they are kept."""

    @classmethod
    def of(
        cls,
        pairs: PairSums,
        scored: tuple[Scored, ...],
        entropy: FloatArray,
        words: FloatArray,
        *,
        products: bool = False,
    ) -> ScoreSums:
        """The sums of some pairs; `entropy` and `words` are theirs together."""
        every_key, words_only = (Sums.of(*(pairs[f"{kind}.{name}"] for name in PAIR_SUMS)) for kind in KINDS)
        kept = None
        if products and entropy.size <= MOST_HEADS and entropy.size**2 * len(scored) <= _MOST_PRODUCTS:
            kept = {kind: HeadProducts.of(pairs[f"{kind}.weight"], pairs[f"{kind}.n"]) for kind in KINDS}
        return cls(scored, every_key, words_only, entropy, words, kept)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns' names."""
        return tuple(pattern.id for pattern in self.scored)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many layers and heads there are."""
        return self.entropy.shape

    def finish(self, kind: AttentionKind = AttentionKind.ONLY, layers: tuple[int, ...] = ()) -> Scores:
        """The scores of every head and pattern: heads of that kind of attention, of layers with these numbers."""
        every_key, words_only = (
            getattr(self, kind).finish(None if self.products is None else self.products[kind]) for kind in KINDS
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            entropy = self.entropy / self.words
        return Scores(self.scored, every_key, words_only, entropy, kind, layers)
