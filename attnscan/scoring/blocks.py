"""Sums by blocks of pairs: what travels between batches, processes and machines. Numpy.

A block is a pair or, of many pairs, those whose keys begin alike. Which pairs are together follows from the pairs
alone, so that shards, order and resumption change nothing. Statistics are functions over the first axis of sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnscan.results.scores import RESAMPLINGS, FloatArray

SumsByName = Mapping[str, FloatArray]
"""Pairs' own sums, as `Scorer` and `ClassScorer` name them. Shape: each [pair, layer, head, column or 1]."""
KEY_SETS = ("every_key", "words_only")
"""With the weights as they are; with weights on special tokens removed and each row renormalised over words."""
PAIR_SUMS = ("weight", "n", "chance", "whole", "itself")
"""Sums of each pair by each of `KEY_SETS`: weight on target and eligible queries; weight by chance; weight on the wider
target of which this one is a part; and, of patterns of others, weight on the query itself."""
BITS = 64  # of a pair's key, which distinguish it from all others
MOST_BLOCKS, FEWEST_BLOCKS = (
    256,
    32,
)  # blocks that are kept of a model of usual size, and of one of thousands of heads
ROOM = 1 << 23  # numbers that all blocks may hold together: 64 MB


def add_sums(a: Any, b: Any) -> Any:
    """Add two sums: mappings name by name; None is an empty sum."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Mapping):
        return {**a, **{name: add_sums(a.get(name), values) for name, values in b.items()}}
    return a + b


@dataclass(frozen=True)
class PairSums:
    """Named sums, the block first in every shape. They add; a name that one of two lacks counts as zero in it."""

    keys: NDArray[np.uint64]  # sorted: the first `bits` bits of the keys of each block's pairs
    sums: Mapping[
        str, FloatArray
    ]  # by name. Shape: [block, ...], as a rule [block, layer, head, column]
    most: int = MOST_BLOCKS  # how many blocks are kept
    bits: int = BITS

    @classmethod
    def of(
        cls, keys: Sequence[str], sums: Mapping[str, FloatArray], most: int = MOST_BLOCKS
    ) -> Self:
        """Put sums of pairs into blocks, by the `Pair.key` of each; large sums into fewer. Shape: [pair, ...]."""
        in_room = max(
            FEWEST_BLOCKS, ROOM // max(1, sum(values[0].size for values in sums.values()))
        )
        return cls(np.array([int(key[: BITS // 4], 16) for key in keys], np.uint64), sums).limited(
            min(most, in_room)
        )

    def __add__(self, other: Self) -> Self:
        bits = min(self.bits, other.bits)
        keys = [_cut(blocks.keys, blocks.bits - bits) for blocks in (self, other)]
        sums = {}
        for name in {**self.sums, **other.sums}:
            shape = (self.sums if name in self.sums else other.sums)[name].shape[1:]
            values = (
                blocks.sums.get(name, np.zeros((len(blocks.keys), *shape)))
                for blocks in (self, other)
            )
            sums[name] = np.concatenate(list(values))
        return replace(self, keys=np.concatenate(keys), sums=sums, bits=bits).limited(
            min(self.most, other.most)
        )

    def limited(self, most: int) -> Self:
        """These sums in at most so many blocks, in the order of their keys, which are cut until they are as few."""
        cut = next(
            cut for cut in range(self.bits + 1) if len(np.unique(_cut(self.keys, cut))) <= most
        )
        keys, group = np.unique(_cut(self.keys, cut), return_inverse=True)
        order = group.argsort(kind="stable")
        starts = np.searchsorted(group[order], np.arange(len(keys)))
        sums = {name: np.add.reduceat(values[order], starts) for name, values in self.sums.items()}
        return replace(self, keys=keys, sums=sums, most=most, bits=self.bits - cut)


def _cut(keys: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Keys without their last bits; of none of 64, a shift would leave all."""
    return keys >> np.uint64(bits) if bits < BITS else np.zeros_like(keys)


def ratio(total: FloatArray, n: FloatArray) -> FloatArray:
    """ΣS / Σn over blocks; NaN where n is zero. Shape: [block, ...] twice, of any that broadcast -> [...]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total.sum(0) / n.sum(0))


def residuals(total: FloatArray, n: FloatArray) -> FloatArray:
    """What each block adds to the error of its ratio: √(K/(K-1)) (S - ratio·n) / Σn, of K with an n; NaN below two.

    Those of the difference of two ratios are the difference of theirs. Shape: [block, ...] twice -> [block, ...].
    Source: the linearized variance of a ratio of cluster totals, Cochran, Sampling Techniques (1977), 6.4.
    """
    clusters = (n > 0).sum(0)
    correction = np.sqrt(clusters / np.where(clusters > 1, clusters - 1, np.nan))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((total - ratio(total, n) * n) / n.sum(0) * correction)


def error(residual: FloatArray) -> FloatArray:
    """The standard error of a ratio, clustered by block, or of the difference of two. Shape: [block, ...] -> [...]."""
    return np.asarray(np.sqrt(np.einsum("b...,b...->...", residual, residual)))


def effective(n: FloatArray) -> FloatArray:
    """(Σn)² / Σn²: so many blocks of one size would tell as much; NaN where n is zero. Shape: [block, ...] -> [...].

    Source: Kish, Survey Sampling (1965), for the effective size of an unequally weighted sample.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(n.sum(0) ** 2 / (n**2).sum(0))


def resamples(count: int, seed: int, at_once: int) -> Iterator[FloatArray]:
    """How often each unit is drawn in each of the bootstrap resamples, some at a time. Shape: each [resample, unit].

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
    """
    rng, even = np.random.default_rng(seed), np.full(count, 1 / count)
    for start in range(0, RESAMPLINGS, at_once):
        yield rng.multinomial(count, even, size=min(at_once, RESAMPLINGS - start)).astype(float)
