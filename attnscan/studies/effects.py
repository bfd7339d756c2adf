"""What sets of heads are worth beside their controls: sums over pairs, and the standard errors of effects."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from attnscan.results.scores import FloatArray
from attnscan.scoring.sums import RatioSums

Compared = Sequence[tuple[int, list[int]]]
"""Of each set of heads that is judged, its number among those that are run, and its controls'."""


def sums_beside_controls(sums: FloatArray, n: FloatArray, compared: Compared) -> list[RatioSums]:
    """Of every set of heads that was run, then of each judged set's difference from the mean of its controls.

    Shape: [pair, quantity, set] and [pair, quantity] -> [quantity] each; NaN without controls.
    """
    differences = (
        sums[..., own] - sums[..., controls].mean(-1) if controls else np.full(n.shape, np.nan)
        for own, controls in compared
    )
    return [RatioSums.of(values, n) for values in itertools.chain(np.moveaxis(sums, -1, 0), differences)]


def se_beside_controls(difference: RatioSums, controls: FloatArray, possible: int) -> FloatArray:
    """The standard error of an effect. Shape: `controls` [control, quantity], their losses -> [quantity].

    Two things vary: the pairs, among which the difference from the controls is a ratio clustered by pair; and the
    controls, which are drawn without repetition from `possible` ones:

        se² = the ratio's se² + variance of the controls' losses / controls x (1 - controls / possible)

    The second part is 0 where all possible controls were taken. NaN below two pairs, without controls, and with one
    control that was drawn from several.

    Source: the last factor is the finite-population correction (Cochran, Sampling Techniques, 1977, chapter 2).
    """
    drawn = len(controls)
    if drawn == possible:
        return difference.se
    if drawn < 2:
        return np.full(difference.se.shape, np.nan)
    by_draw = controls.var(0, ddof=1) / drawn * (1 - drawn / possible)
    se: FloatArray = np.sqrt(difference.se**2 + by_draw)
    return se
