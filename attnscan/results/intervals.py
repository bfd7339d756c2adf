"""Intervals and p-values by Student's t, and which of many differences survive."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnscan.results.lazy import scipy

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95  # how often an interval holds the value that all pairs of this kind would give


def half_width(se: ArrayLike, pairs: ArrayLike) -> FloatArray:
    """Half the width of an estimate's 95 % interval; NaN below two pairs.

    By t with `pairs` - 1 degrees of freedom.
    """
    quantile = scipy.special.stdtrit(_freedom(pairs), (1 + CONFIDENCE) / 2)
    return np.asarray(np.asarray(se, dtype=float) * quantile)


def _freedom(pairs: ArrayLike) -> FloatArray:
    """Degrees of freedom; NaN below two pairs."""
    freedom = np.asarray(pairs, dtype=float) - 1
    return np.where(freedom > 0, freedom, np.nan)


def score_interval(
    score: ArrayLike, se: ArrayLike, pairs: ArrayLike, effective: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of a score, within [0, 1].

    It is made on the logit scale, since scores of few pairs are skewed:

    logit(score) ± t(E - 1) · E/(E - 1) · √((K - 1)/K) se / (score (1 - score)) of K pairs, E of
    them effective. NaN below two pairs. A score of 0 or 1, or one without an error, is its own
    interval. Shape: any, all alike.

    Source: E is the effective number of clusters of Carter, Schnepel and Steigerwald (Rev. Econ.
    Stat. 99, 2017); E/(E - 1), for the pull of a large pair on the score, is HC3 of MacKinnon and
    White (J. Econometrics 29, 1985). They were chosen for the share of samples in which the
    interval holds: `benchmarks/coverage_of_intervals.py`.
    """
    score = np.asarray(score, dtype=float)
    se = np.asarray(se, dtype=float)
    pairs = np.asarray(pairs, dtype=float)
    effective = np.asarray(effective, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        spread = se * np.sqrt((pairs - 1) / pairs) * effective / (effective - 1)
        odds = score / (1 - score)
        reach = np.exp(half_width(spread / (score * (1 - score)), effective))
        low = 1 / (1 + reach / odds)
        high = 1 / (1 + 1 / (reach * odds))
    is_certain = (score <= 0) | (score >= 1)
    is_point = (se == 0) | is_certain & ~np.isnan(se)
    return np.where(is_point, score, low), np.where(is_point, score, high)


def p_value(difference: ArrayLike, se: ArrayLike, pairs: ArrayLike) -> FloatArray:
    """How probable so large a difference is where there is none; NaN below two pairs.

    Two-sided, by t with `pairs` - 1 degrees of freedom.
    """
    size = np.abs(np.asarray(difference, dtype=float))
    se = np.asarray(se, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(size > 0, size / se, 0.0)
    return np.where(np.isnan(se), np.nan, 2 * scipy.special.stdtr(_freedom(pairs), -t))


def false_discovery_rates(p: FloatArray) -> FloatArray:
    """For each p-value the smallest false discovery rate at which it survives; NaN stays NaN.

    Source: Benjamini and Hochberg 1995.
    """
    rates = np.full(p.shape, np.nan)
    valid = ~np.isnan(p)
    if valid.any():
        rates[valid] = scipy.stats.false_discovery_control(p[valid], method="bh")
    return rates


def holm(p: FloatArray) -> FloatArray:
    """Each p-value adjusted for all: below 0.05 none is false in 95 % of cases. NaN does not count.

    Source: Holm 1979.
    """
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p, axis=None)[: np.count_nonzero(~np.isnan(p))]  # NaN comes last
    steps = p.flat[order] * np.arange(len(order), 0, -1)
    adjusted.flat[order] = np.maximum.accumulate(steps).clip(max=1)
    return adjusted
