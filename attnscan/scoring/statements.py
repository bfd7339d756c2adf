"""Statements: which candidate tells a head best from the average head of its model, and whether that is sure. Numpy.

For each head and candidate, over all words: M is its mean share of attention, E that under even attention, A the mean
of M over all heads. A head is stated by the candidate with the largest relative entropy of M to A among those for which
M - A and M - E are above 0.10: of many pairs by a test that counts all heads and candidates, with errors clustered by
pair; then by bootstrap resamples of pairs, or of one input's words. Results hold `stated`, and load without torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import CANDIDATES, COLUMNS, DRAWN_MAPS, LEVEL, MARGIN, RESAMPLINGS, STAYS, Statements
from attnscan.results.scores import FloatArray, IntArray

_AT_ONCE = 50  # resamples: of 384 heads and 24 candidates, their shares take 4 MB
_CELLS = 1 << 22  # of resamples x heads x candidates that are worked on at once

BoolArray = NDArray[np.bool_]


def candidates(*, special: bool) -> tuple[tuple[str, ...], FloatArray]:
    """The candidates of a reading, with special tokens in or out, and the columns that each is made of.

    Shape: the second [column, candidate], 0 or 1.
    """
    those = [candidate for candidate in CANDIDATES if special or not candidate.special]
    members = np.zeros((COLUMNS, len(those)))
    for place, candidate in enumerate(those):
        members[list(candidate.columns), place] = 1
    return tuple(candidate.id for candidate in those), members


@dataclass(frozen=True)
class _Shares:
    """M, E and A, and what is asked of them. Shape: `share` and `chance` [..., layer, head, candidate]."""

    share: FloatArray
    chance: FloatArray
    names: tuple[str, ...]

    @cached_property
    def average(self) -> FloatArray:
        """A: over the heads that have one. Shape: [..., 1, 1, candidate]."""
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
        """The candidate that tells each head best from the average head; -1 where none qualifies.

        Shape: [..., layer, head].
        """
        gain = np.full(qualify.shape, -np.inf)  # few qualify, and logarithms take longer than all else
        average = np.broadcast_to(self.average, qualify.shape)
        gain[qualify] = _relative_entropy(self.share[qualify], average[qualify])
        return np.where(qualify.any(-1), gain.argmax(-1), -1)


def stated(sums: Mapping[str, FloatArray], *, special: bool, seed: int, of_pairs: bool) -> Statements:
    """What every head does, from the sums of pairs or blocks of pairs, or of the words of one input.

    Shape: `sums` as `ClassScorer.sums` names them, [unit, layer, head, column], or 1 in place of layer or head.
    """
    names, members = candidates(special=special)
    on = sums["on"] @ members
    even, n = np.broadcast_to(sums["even"] @ members, on.shape), sums["n"]
    shares = _shares(on.sum(0), even.sum(0), n.sum(0), names)
    qualify = shares.above()
    if of_pairs:
        qualify &= _beyond_doubt(shares, on, even, n)
    winner = shares.winners(qualify)
    holds, stays, drawn = _resampled(on, sums["even"] @ members, n, names, winner, seed)
    return Statements(
        names=names,
        share=shares.share,
        chance=shares.chance,
        average=shares.average[0, 0],
        winner=np.where(holds >= STAYS, winner, -1),
        stays=np.where(holds >= STAYS, stays, np.nan),
        units=len(on),
        drawn=drawn,
        of_pairs=of_pairs,
    )


def _shares(on: FloatArray, even: FloatArray, n: FloatArray, names: tuple[str, ...]) -> _Shares:
    with np.errstate(invalid="ignore", divide="ignore"):
        return _Shares(on / n, np.broadcast_to(even / n, on.shape), names)


def _beyond_doubt(shares: _Shares, on: FloatArray, even: FloatArray, n: FloatArray) -> BoolArray:
    """Where the differences are above the margin by a t-test at a level that counts all heads and candidates.

    Source of the errors: the linearized variance of a difference of ratios of cluster totals, Cochran (1977), 6.4.
    Shape: `on`, `even` and `n` [unit, layer, head, candidate] -> [layer, head, candidate].
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


def _resampled(
    on: FloatArray, even: FloatArray, n: FloatArray, names: tuple[str, ...], winner: IntArray, seed: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """In what share of resamples the winner's differences stay above the margin, and in what share it wins again; and
    who wins the first of them.

    Shape: [layer, head] each, and [`DRAWN_MAPS`, layer, head].
    """
    units, shape = len(on), on.shape[1:]
    holds, again = np.zeros(shape[:2]), np.zeros(shape[:2])
    first: list[IntArray] = []
    at_once = max(1, min(_AT_ONCE, _CELLS // on[0].size))
    place = np.clip(winner, 0, None)[None, ..., None]
    for drawn in _drawings(units, seed, at_once):
        shares = _shares(_summed(drawn, on), _summed(drawn, even), _summed(drawn, n), names)
        above = shares.above()
        holds += np.take_along_axis(above, np.broadcast_to(place, (len(drawn), *shape[:2], 1)), -1)[..., 0].sum(0)
        winners = shares.winners(above)
        first.extend(winners[: DRAWN_MAPS - len(first)])
        again += (winners == winner).sum(0)
    known = winner >= 0
    shares_of = np.where(known, holds / RESAMPLINGS, 0.0), np.where(known, again / RESAMPLINGS, np.nan)
    return *shares_of, np.stack(first)


def _drawings(units: int, seed: int, at_once: int) -> Iterator[FloatArray]:
    """How often each unit is drawn, some resamples at a time. Shape: each [resample, unit]."""
    rng, even = np.random.default_rng(seed), np.full(units, 1 / units)
    done = 0
    while done < RESAMPLINGS:
        yield rng.multinomial(units, even, size=min(at_once, RESAMPLINGS - done)).astype(float)
        done += at_once


def _summed(drawn: FloatArray, values: FloatArray) -> FloatArray:
    """Sums over the units of each resample. Shape: [resample, unit] and [unit, ...] -> [resample, ...]."""
    flat: FloatArray = drawn @ values.reshape(len(values), -1)
    return flat.reshape(len(drawn), *values.shape[1:])


def _relative_entropy(share: FloatArray, average: FloatArray) -> FloatArray:
    """Of a share to the average one, in nats: M ln(M/A) + (1-M) ln((1-M)/(1-A))."""
    entropy = np.zeros(np.broadcast_shapes(share.shape, average.shape))
    with np.errstate(invalid="ignore", divide="ignore"):
        for part, whole in ((share, average), (1 - share, 1 - average)):
            entropy += np.where(part > 0, part * np.log(part / whole), 0.0)  # 0 ln 0 is 0
    return entropy
