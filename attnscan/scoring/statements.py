"""Habits: what sets a head apart from the average head of its model, and whether that is beyond doubt. Numpy.

For each head and habit, over all words: M is its mean share of attention, E that under even attention, A the mean of M
over all heads. A head has the habit with the largest relative entropy of M to A among those for which M - A and M - E
are above 0.10: of many pairs by a test that counts all heads and habits, with errors clustered by pair; then by
bootstrap resamples of pairs, or of one input's words (`labels.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import COLUMNS, HABITS, LEVEL, MARGIN, SPECIAL_HABITS
from attnscan.results.scores import FloatArray, IntArray
from attnscan.scoring.blocks import error, residuals

BoolArray = NDArray[np.bool_]


def habits_of(*, special: bool) -> tuple[tuple[str, ...], FloatArray]:
    """The habits of a reading, with special tokens in or out, and the columns that each is made of.

    Shape: the second [column, habit], 0 or 1.
    """
    those = [name for name in HABITS if special or name not in SPECIAL_HABITS]
    members = np.zeros((COLUMNS, len(those)))
    for place, name in enumerate(those):
        members[list(HABITS[name]), place] = 1
    return tuple(those), members


@dataclass(frozen=True)
class Shares:
    """M and E, and what follows from them. Shape: each [..., layer, head, habit]."""

    share: FloatArray
    chance: FloatArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, on: FloatArray, even: FloatArray, n: FloatArray, names: tuple[str, ...]) -> Shares:
        """From sums over units: attention on each habit, that under even attention, and words."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return cls(on / n, even / n, names)

    @cached_property
    def average(self) -> FloatArray:
        """A: over the heads that have one. Shape: [..., 1, 1, habit]."""
        with np.errstate(invalid="ignore"):
            known = (~np.isnan(self.share)).sum((-3, -2), keepdims=True)
            return np.asarray(np.nansum(self.share, (-3, -2), keepdims=True) / known)

    @property
    def pair(self) -> tuple[int, int]:
        """The places of `same-keys` and `even`, of which the one must be above the other."""
        return self.names.index("same-keys"), self.names.index("even")

    def above(self) -> BoolArray:
        """Where a head is well above the average head, above even attention and, for `same-keys`, above `even`."""
        same_keys, even = self.pair
        with np.errstate(invalid="ignore"):
            above: BoolArray = (self.share - self.average > MARGIN) & (self.share - self.chance > MARGIN)
            above[..., same_keys] &= self.share[..., same_keys] - self.share[..., even] > MARGIN
        return above

    def winners(self, qualify: BoolArray) -> IntArray:
        """The habit that tells each head best from the average head, by M ln(M/A) + (1-M) ln((1-M)/(1-A)).

        -1 where none qualifies. Shape: [..., layer, head].
        """
        gain = np.zeros(self.share.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            for part, whole in ((self.share, self.average), (1 - self.share, 1 - self.average)):
                gain += np.where(part > 0, part * np.log(part / whole), 0.0)  # 0 ln 0 is 0
        return np.where(qualify.any(-1), np.where(qualify, gain, -np.inf).argmax(-1), -1)


def beyond_doubt(shares: Shares, on: FloatArray, even: FloatArray, n: FloatArray) -> BoolArray:
    """Where the differences are above the margin by a t-test at a level that counts all heads and habits.

    Shape: `on`, `even` and `n` [unit, layer, head, habit] -> [layer, head, habit].
    """
    from scipy.special import stdtrit

    if len(on) < 2:
        return np.zeros(shares.share.shape, dtype=bool)
    quantile = stdtrit(len(on) - 1, 1 - LEVEL / shares.share.size)
    of_head, of_even = np.nan_to_num(residuals(on, n)), residuals(even, n)
    heads = (~np.isnan(shares.share[..., 0])).sum()
    of_average = of_head.sum((1, 2), keepdims=True) / max(1, heads)

    def is_sure(difference: FloatArray, residual: FloatArray) -> BoolArray:
        with np.errstate(invalid="ignore"):
            return np.asarray(difference - quantile * error(residual) > MARGIN)

    sure = is_sure(shares.share - shares.average, of_head - of_average)
    sure &= is_sure(shares.share - shares.chance, of_head - of_even)
    same_keys, spread = shares.pair
    apart = shares.share[..., same_keys] - shares.share[..., spread]
    sure[..., same_keys] &= is_sure(apart, of_head[..., same_keys] - of_head[..., spread])
    return sure
