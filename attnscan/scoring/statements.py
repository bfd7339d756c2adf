"""Habits: what sets a head apart from the average head of its model, and whether that is beyond doubt. Numpy.

For each head and habit, over all words: M is its mean share of attention, E that under even attention, A the mean of M
over all heads. A head has the habit with the largest relative entropy of M to A among those for which M - A and M - E
are above 0.10: of many pairs by a test that counts all heads and habits, with errors clustered by pair; then by
bootstrap resamples of pairs, or of one input's words (`labels.py`).
"""

from __future__ import annotations

from typing import NamedTuple

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


class Shares(NamedTuple):
    """What tells heads apart, by sums over units. Shape: each [..., layer, head, habit]."""

    share: FloatArray  # M
    chance: FloatArray  # E
    average: FloatArray  # A, over the heads that have an M: [..., 1, 1, habit]


def shares_of(on: FloatArray, even: FloatArray, n: FloatArray) -> Shares:
    """From attention on each habit, that under even attention, and words."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = on / n
        known = (~np.isnan(share)).sum((-3, -2), keepdims=True)
        return Shares(share, even / n, np.nansum(share, (-3, -2), keepdims=True) / known)


def differences(shares: Shares, names: tuple[str, ...], *, others: float = np.inf) -> FloatArray:
    """M - A, M - E and, of `same-keys`, its M less that of `even`, for which habits of other names have `others`.

    A habit is told if all three are above the margin. Shape: [3, ..., layer, head, habit].
    """
    same_keys, even = names.index("same-keys"), names.index("even")
    apart = np.full(shares.share.shape, others, dtype=np.float64)
    apart[..., same_keys] = shares.share[..., same_keys] - shares.share[..., even]
    return np.stack([shares.share - shares.average, shares.share - shares.chance, apart])


def winners(shares: Shares, qualify: BoolArray) -> IntArray:
    """The habit that tells each head best from the average head, by M ln(M/A) + (1-M) ln((1-M)/(1-A)).

    -1 where none qualifies. Shape: [..., layer, head].
    """
    gain = np.zeros(shares.share.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        for part, whole in ((shares.share, shares.average), (1 - shares.share, 1 - shares.average)):
            gain += np.where(part > 0, part * np.log(part / whole), 0.0)  # 0 ln 0 is 0
    return np.where(qualify.any(-1), np.where(qualify, gain, -np.inf).argmax(-1), -1)


def beyond_doubt(shares: Shares, names: tuple[str, ...], on: FloatArray, even: FloatArray, n: FloatArray) -> BoolArray:
    """Where the differences are above the margin by a t-test at a level that counts all heads and habits.

    Shape: `on`, `even` and `n` [unit, layer, head, habit] -> [layer, head, habit].
    """
    from scipy.special import stdtrit

    if len(on) < 2:
        return np.zeros(shares.share.shape, dtype=bool)
    quantile = stdtrit(len(on) - 1, 1 - LEVEL / shares.share.size)
    of_head, heads = np.nan_to_num(residuals(on, n)), (~np.isnan(shares.share[..., 0])).sum()
    of_average = of_head.sum((1, 2), keepdims=True) / max(1, heads)
    own = differences(Shares(of_head, residuals(even, n), of_average), names, others=0)
    errors = np.stack([error(residual) for residual in own])
    return np.asarray((differences(shares, names) - quantile * errors > MARGIN).all(0))
