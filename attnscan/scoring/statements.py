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
    """M, E and A, and what is asked of them. Shape: `share` and `chance` [..., layer, head, habit]."""

    share: FloatArray
    chance: FloatArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, on: FloatArray, even: FloatArray, n: FloatArray, names: tuple[str, ...]) -> Shares:
        """From sums over units: attention on each habit, that under even attention, and words."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share, chance = np.broadcast_arrays(on / n, even / n)  # either may differ by head where the other does not
        return cls(share, chance, names)

    @cached_property
    def average(self) -> FloatArray:
        """A: over the heads that have one. Shape: [..., 1, 1, habit]."""
        with np.errstate(invalid="ignore"):
            known = ~np.isnan(self.share)
            total = np.where(known, self.share, 0).sum((-3, -2), keepdims=True)
            average: FloatArray = total / np.where(
                known.any((-3, -2), keepdims=True), known.sum((-3, -2), keepdims=True), np.nan
            )
        return average

    def above(self) -> BoolArray:
        """Where a head is well above the average head, above even attention and, for `same-keys`, above `even`."""
        with np.errstate(invalid="ignore"):
            above: BoolArray = (self.share - self.average > MARGIN) & (self.share - self.chance > MARGIN)
            same_keys, even = (self.names.index(name) for name in ("same-keys", "even"))
            above[..., same_keys] &= self.share[..., same_keys] - self.share[..., even] > MARGIN
        return above

    def winners(self, qualify: BoolArray) -> IntArray:
        """The habit that tells each head best from the average head; -1 where none qualifies.

        Shape: [..., layer, head].
        """
        gain = np.full(qualify.shape, -np.inf)  # few qualify, and logarithms take longer than all else
        average = np.broadcast_to(self.average, qualify.shape)
        gain[qualify] = _relative_entropy(self.share[qualify], average[qualify])
        return np.where(qualify.any(-1), gain.argmax(-1), -1)


def beyond_doubt(shares: Shares, on: FloatArray, even: FloatArray, n: FloatArray) -> BoolArray:
    """Where the differences are above the margin by a t-test at a level that counts all heads and habits.

    Source of the errors: the linearized variance of a difference of ratios of cluster totals, Cochran (1977), 6.4.
    Shape: `on`, `even` and `n` [unit, layer, head, habit] -> [layer, head, habit].
    """
    from scipy.special import stdtrit

    units, count = len(on), shares.share.size
    if units < 2:
        return np.zeros(shares.share.shape, dtype=bool)
    quantile = stdtrit(units - 1, 1 - LEVEL / count)
    total = n.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_head = np.nan_to_num((on - shares.share * n) / total)
        of_even = (even - shares.chance * n) / total
    heads = (~np.isnan(shares.share[..., 0])).sum()
    of_average = of_head.sum((1, 2), keepdims=True) / max(1, heads)

    def doubtless(difference: FloatArray, residual: FloatArray) -> BoolArray:
        error = np.sqrt(units / (units - 1) * (residual**2).sum(0))
        with np.errstate(invalid="ignore"):
            sure: BoolArray = difference - quantile * error > MARGIN
        return sure

    sure = doubtless(shares.share - shares.average, of_head - of_average)
    sure &= doubtless(shares.share - shares.chance, of_head - of_even)
    same_keys, spread = (shares.names.index(name) for name in ("same-keys", "even"))
    sure[..., same_keys] &= doubtless(
        shares.share[..., same_keys] - shares.share[..., spread], of_head[..., same_keys] - of_head[..., spread]
    )
    return sure


def _relative_entropy(share: FloatArray, average: FloatArray) -> FloatArray:
    """Of a share to the average one, in nats: M ln(M/A) + (1-M) ln((1-M)/(1-A))."""
    entropy = np.zeros(np.broadcast_shapes(share.shape, average.shape))
    with np.errstate(invalid="ignore", divide="ignore"):
        for part, whole in ((share, average), (1 - share, 1 - average)):
            entropy += np.where(part > 0, part * np.log(part / whole), 0.0)  # 0 ln 0 is 0
    return entropy
