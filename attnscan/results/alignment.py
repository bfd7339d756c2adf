"""How well heads of cross attention align words, by gold links. Numpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnscan.results.scores import FloatArray
from attnscan.results.shown import shaped


@dataclass(frozen=True)
class AlignmentErrors:
    """Alignment error rates, in [0, 1], where every target word is linked to its most attended source word.

    Source: Och and Ney (2003), section 6: 1 - 2|A ∩ S| / (|A| + |S|) for links A and gold links S.
    """

    __repr__ = shaped

    halves: FloatArray
    """In each half of the pairs, which their hashes say; NaN where one has none. Shape: [half, layer, head]."""
    overall: FloatArray
    """Over all pairs. Shape: [layer, head]."""

    def best(self) -> tuple[int, float] | None:
        """The number of the head that errs least in one half, and its error rate in the other; None without pairs."""
        chosen, told = (half.ravel() for half in self.halves)
        if np.isnan(chosen).all() or np.isnan(told).all():
            return None
        number = int(np.nanargmin(chosen))
        return number, float(told[number])
