"""What a standard error says: intervals and p-values by Student's t, and which of many differences survive.

Errors here are clustered by pair, so that K pairs leave K - 1 degrees of freedom. SciPy is imported where it is
used: its import takes longer than anything else that a table needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
"""How often an interval holds the value that all pairs of this kind would give."""


def half_width(se: ArrayLike, pairs: ArrayLike) -> NDArray[np.float64]:
    """Half the width of the 95 % interval around an estimate with that error, by t with `pairs` - 1 degrees of freedom.

    NaN below two pairs. Shape: any, both alike.
    """
    from scipy.special import stdtrit

    freedom = np.asarray(pairs, dtype=float) - 1
    quantile = stdtrit(np.where(freedom > 0, freedom, np.nan), (1 + LEVEL) / 2)
    width: NDArray[np.float64] = np.asarray(se, dtype=float) * quantile
    return width


def p_value(difference: ArrayLike, se: ArrayLike, pairs: ArrayLike) -> NDArray[np.float64]:
    """How probable a difference at least so far from 0 is where there is none, by t with `pairs` - 1; two-sided.

    1 where the difference is 0 without an error, NaN below two pairs. Shape: any, all alike.
    """
    from scipy.special import stdtr

    freedom = np.asarray(pairs, dtype=float) - 1
    size = np.abs(np.asarray(difference, dtype=float))
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(size > 0, size / np.asarray(se, dtype=float), 0.0)
    p: NDArray[np.float64] = 2 * stdtr(np.where(freedom > 0, freedom, np.nan), -t)
    return np.where(np.isnan(np.asarray(se, dtype=float)), np.nan, p)


def false_discovery_rates(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each p-value the smallest false discovery rate at which it is among those that survive.

    NaN stays NaN and does not count. Shape: any. Source: Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995).
    """
    from scipy.stats import false_discovery_control

    rates, known = np.full(p.shape, np.nan), ~np.isnan(p)
    if known.any():
        rates[known] = false_discovery_control(p[known], method="bh")
    return rates
