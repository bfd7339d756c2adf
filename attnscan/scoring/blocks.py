"""Sums by blocks of pairs: what travels between batches, processes and machines. Numpy.

A block is a pair or, of many pairs, those whose keys begin alike. Which pairs are together follows
from the pairs alone, so that shards, order and resumption change nothing. Statistics are functions
over the first axis of sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from attnscan.results.scores import RESAMPLINGS, FloatArray, IntArray
from attnscan.text import hashed

SumsByName = Mapping[str, FloatArray]
"""Pairs' own sums, as `PatternScorer` and `ClassScorer` name them.

Shape: each [pair, layer, head, column or 1]."""
KEY_SETS = ("every_key", "words_only")
"""The weights as they are; without those on special tokens, each row renormalised over words."""
PAIR_SUMS = ("weight", "n", "chance", "whole", "itself")
"""Sums of each pair by each of `KEY_SETS`: weight on target and eligible queries; weight by chance;
weight on the wider target of which this one is a part; and, of patterns that a head does not follow
by looking at the word itself, weight on that."""
BITS = 64  # of a pair's key, which distinguish it from all others
MAX_BLOCKS = 256  # blocks that are kept of a model of usual size
MIN_BLOCKS = 32  # blocks that are kept of a model of thousands of heads
MAX_NUMBERS = 1 << 23  # numbers that all blocks may hold together: 64 MB


GROUP_DIGITS = 6
"""How many hexadecimal digits of a block's key tell the group of its pairs, where it has one."""
_GROUP_BITS = 4 * GROUP_DIGITS
DRAWN_GROUPS = 2 / 3
"""How many groups a resample has, as a part of those that there are.

With fewer than all, a label is sure only if it holds in corpora of fewer genres, too:
`docs/statements.md` says what that gives."""
_NAMED = 1 << (_GROUP_BITS - 1)
"""The bit of a group that says that it was named, and is no bin of length."""


def add_sums(a: Any, b: Any) -> Any:
    """Add two sums: mappings name by name; None is an empty sum."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Mapping):
        return {**a, **{name: add_sums(a.get(name), values) for name, values in b.items()}}
    return a + b


@dataclass(frozen=True)
class PairSums:
    """Named sums, the block first in every shape.

    They add; a name that one of two lacks counts as zero in it.
    """

    keys: NDArray[np.uint64]
    """Sorted: the first `bits` bits of the keys of each block's pairs."""
    sums: Mapping[str, FloatArray]
    """By name. Shape: [block, ...], as a rule [block, layer, head, column]."""
    most: int = MAX_BLOCKS
    """How many blocks are kept."""
    bits: int = BITS

    @classmethod
    def of(
        cls, keys: Sequence[str], sums: Mapping[str, FloatArray], most: int = MAX_BLOCKS
    ) -> Self:
        """Put sums of pairs into blocks, by the `Pair.key` of each; large sums into fewer.

        Shape: `sums` [pair, ...].
        """
        numbers_of_pair = sum(values[0].size for values in sums.values())
        most_that_fit = max(MIN_BLOCKS, MAX_NUMBERS // max(1, numbers_of_pair))
        first_bits = np.array([int(key[: BITS // 4], 16) for key in keys], np.uint64)
        return cls(first_bits, sums).limited(min(most, most_that_fit))

    def __add__(self, other: Self) -> Self:
        bits = min(self.bits, other.bits)
        own_keys = _cut(self.keys, self.bits - bits)
        other_keys = _cut(other.keys, other.bits - bits)
        sums = {}
        for name in {**self.sums, **other.sums}:
            shape = (self.sums if name in self.sums else other.sums)[name].shape[1:]
            own_values = self.sums.get(name, np.zeros((len(own_keys), *shape)))
            other_values = other.sums.get(name, np.zeros((len(other_keys), *shape)))
            sums[name] = np.concatenate([own_values, other_values])
        both = replace(self, keys=np.concatenate([own_keys, other_keys]), sums=sums, bits=bits)
        return both.limited(min(self.most, other.most))

    def limited(self, most: int) -> Self:
        """These sums in at most so many blocks, in the order of their keys.

        Keys are cut until they are as few.
        """
        cut = 0
        while len(np.unique(_cut(self.keys, cut))) > most:
            cut += 1
        keys, group = np.unique(_cut(self.keys, cut), return_inverse=True)
        order = group.argsort(kind="stable")
        starts = np.searchsorted(group[order], np.arange(len(keys)))
        sums = {name: _sum_groups(values, order, starts) for name, values in self.sums.items()}
        return replace(self, keys=keys, sums=sums, most=most, bits=self.bits - cut)


def _sum_groups(values: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """The sums of blocks that meet, one group behind the other in an `order` from `starts` on.

    `np.add.reduceat` takes ten times as long where few blocks meet.
    Shape: `values` [block, ...] -> [group, ...].
    """
    size = np.diff(starts, append=len(order))
    total = values[order[starts]]
    for place in range(1, size.max(initial=0)):
        larger = np.flatnonzero(size > place)
        total[larger] += values[order[starts[larger] + place]]
    return total


def grouped_key(key: str, group: str | None, words: int) -> str:
    """The key of a pair behind that of its group, by which pairs of a group stand together.

    Where there is no group, pairs are grouped by their number of words: a bin begins at the square
    root of two times where the one before it begins.
    """
    if group is None:
        number = int(2 * np.log2(max(1, words)))
    else:
        number = _NAMED | int(hashed(group.encode())[:GROUP_DIGITS], 16)
    return f"{number:0{GROUP_DIGITS}x}{key}"


class Groups(NamedTuple):
    """The groups of blocks whose keys are those of `grouped_key`."""

    number: IntArray
    """Which group each block is of, from 0. Shape: [block]."""
    named: bool
    """Whether the groups were named, and are not bins of length."""

    @classmethod
    def among(cls, blocks: PairSums) -> Self:
        """The groups that keys tell."""
        bits = min(blocks.bits, _GROUP_BITS)
        keys = _cut(blocks.keys, blocks.bits - bits)
        _, number = np.unique(keys, return_inverse=True)
        return cls(number, named=bool((_cut(keys, bits - 1) == 1).any()))

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.number.max()) + 1

    def sums(self, sums: SumsByName) -> dict[str, FloatArray]:
        """Sums of blocks as sums of groups. Shape: each [block, ...] -> [group, ...]."""
        starts = np.searchsorted(self.number, np.arange(self.n_groups))
        return {name: np.add.reduceat(values, starts) for name, values in sums.items()}

    def resamples(self, seed: int, at_once: int) -> Iterator[FloatArray]:
        """How often each block is drawn in each bootstrap resample of groups and then of blocks.

        Of three groups two are drawn, with replacement, and of each that is drawn as many blocks as
        it has, with replacement. Shape: each [resample, block].
        Source: the two levels are of Davison and Hinkley, Bootstrap Methods and their Application
        (1997), 3.8; fewer groups than there are, of Bickel, Götze and van Zwet (Statistica Sinica
        7, 1997).
        """
        rng = np.random.default_rng(seed)
        uniform = np.full(self.n_groups, 1 / self.n_groups)
        drawn = round(self.n_groups * DRAWN_GROUPS)
        group_times = rng.multinomial(drawn, uniform, size=RESAMPLINGS)
        times = np.zeros((RESAMPLINGS, len(self.number)))
        for group in range(self.n_groups):
            blocks = np.flatnonzero(self.number == group)
            draws = group_times[:, group] * len(blocks)
            times[:, blocks] = rng.multinomial(draws, np.full(len(blocks), 1 / len(blocks)))
        for start in range(0, RESAMPLINGS, at_once):
            yield times[start : start + at_once]


def _cut(keys: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Keys without their last bits; of none of 64, a shift would leave all."""
    return keys >> np.uint64(bits) if bits < BITS else np.zeros_like(keys)


def ratio(total: FloatArray, n: FloatArray) -> FloatArray:
    """ΣS / Σn over blocks; NaN where n is zero.

    Shape: [block, ...] twice, of any that broadcast -> [...].
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total.sum(0) / n.sum(0))


def residuals(total: FloatArray, n: FloatArray) -> FloatArray:
    """What each block adds to the error of its ratio: √(K/(K-1)) (S - ratio·n) / Σn.

    K is the number of blocks with an n; NaN where there are less than two. Residuals of the
    difference of two ratios are the difference of theirs.
    Shape: [block, ...] twice -> [block, ...].
    Source: the linearized variance of a ratio of cluster totals, Cochran, Sampling Techniques
    (1977), 6.4.
    """
    clusters = (n > 0).sum(0)
    correction = np.sqrt(clusters / np.where(clusters > 1, clusters - 1, np.nan))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((total - ratio(total, n) * n) / n.sum(0) * correction)


def error(residual: FloatArray) -> FloatArray:
    """The standard error of a ratio, clustered by block, or of the difference of two.

    Shape: [block, ...] -> [...].
    """
    return np.asarray(np.sqrt(np.einsum("b...,b...->...", residual, residual)))


def effective(n: FloatArray) -> FloatArray:
    """(Σn)² / Σn²: so many blocks of one size would tell as much; NaN where n is zero.

    Shape: [block, ...] -> [...].
    Source: Kish, Survey Sampling (1965), for the effective size of an unequally weighted sample.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(n.sum(0) ** 2 / (n**2).sum(0))


def resamples(count: int, seed: int, at_once: int) -> Iterator[FloatArray]:
    """How often each unit is drawn in each of the bootstrap resamples, some at a time.

    Shape: each [resample, unit].
    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
    """
    rng = np.random.default_rng(seed)
    uniform = np.full(count, 1 / count)
    for start in range(0, RESAMPLINGS, at_once):
        size = min(at_once, RESAMPLINGS - start)
        yield rng.multinomial(count, uniform, size=size).astype(float)
