"""Sums of what a model loses, over pairs: sets of heads beside their controls, and what they finish into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscan.results.scores import FloatArray


class EffectSums:
    """Adds up one quantity, pair by pair, for sets of heads that are compared with controls.

    `sets` are all that were run, the intact model first; `compared` says by their numbers which is held against
    which others.
    """

    def __init__(self, sets: int, compared: Sequence[tuple[int, Sequence[int]]]) -> None:
        self._compared = compared
        self._sum, self._n, self._n2, self.pairs = np.zeros(sets), 0.0, 0.0, 0
        self._moments = np.zeros((len(compared), 3))  # of the difference D: Σ D, Σ D², Σ D·n

    def add(self, sums: FloatArray, n: FloatArray) -> None:
        """Add some pairs. Shape: [pair, set], and [pair]: of how many words or answers each sum is."""
        self._sum += sums.sum(0)
        self._n, self._n2 = self._n + float(n.sum()), self._n2 + float((n**2).sum())
        self.pairs += int((n > 0).sum())
        for row, (own, controls) in enumerate(self._compared):
            if controls:
                difference = sums[:, own] - sums[:, controls].mean(1)
                self._moments[row] += difference.sum(), (difference**2).sum(), (difference * n).sum()

    @property
    def n(self) -> int:
        """How many words or answers were counted."""
        return int(self._n)

    def mean(self, number: int) -> float:
        """Of one set; NaN if nothing was counted."""
        return float(self._sum[number] / self._n) if self._n else float("nan")

    def effect(self, row: int) -> tuple[float, float, float]:
        """The mean of the controls, the effect beside them, and its standard error.

        Two things vary: pairs, among which the difference is a ratio clustered by pair, and draws, of which the mean
        of the controls is an average: se² = Σ (D - effect·n)² / (Σ n)² + variance of the controls' means / draws.
        NaN for the error below two pairs or two draws; for all without controls.
        """
        nan = float("nan")
        _, controls = self._compared[row]
        if not controls or not self._n:
            return nan, nan, nan
        total, squares, product = self._moments[row]
        effect = float(total / self._n)
        means = self._sum[list(controls)] / self._n
        if self.pairs < 2 or len(controls) < 2:
            return float(means.mean()), effect, nan
        spread = max(0.0, squares - 2 * effect * product + effect**2 * self._n2) / self._n**2
        return float(means.mean()), effect, float(np.sqrt(spread + means.var(ddof=1) / len(controls)))
