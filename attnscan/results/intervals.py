"""Intervals and p-values by Student's t, with errors clustered by pair, and which of many differences survive."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnscan.results.lazy import scipy

CONFIDENCE = 0.95  # how often an interval holds the value that all pairs of this kind would give


def half_width(se: ArrayLike, pairs: ArrayLike) -> NDArray[np.float64]:
    """Half the width of an estimate's 95 % interval, by t with `pairs` - 1 degrees of freedom; NaN below two pairs."""
    return np.asarray(
        np.asarray(se, dtype=float) * scipy.special.stdtrit(_freedom(pairs), (1 + CONFIDENCE) / 2)
    )


def _freedom(pairs: ArrayLike) -> NDArray[np.float64]:
    freedom = np.asarray(pairs, dtype=float) - 1
    return np.where(freedom > 0, freedom, np.nan)


def score_interval(
    score: ArrayLike, se: ArrayLike, pairs: ArrayLike, effective: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 95 % interval of a score, within [0, 1] and on the logit scale, since scores of few pairs are skewed.

    logit(score) ± t(E - 1) · E/(E - 1) · √((K - 1)/K) se / (score (1 - score)) of K pairs, E of them effective.
    NaN below two pairs. A score of 0 or 1, or one without an error, is its own interval. Shape: any, all alike.

    Source: E is the effective number of clusters of Carter, Schnepel and Steigerwald (Rev. Econ. Stat. 99, 2017);
    E/(E - 1), for the pull of a large pair on the score, is HC3 of MacKinnon and White (J. Econometrics 29, 1985).
    They were chosen for the share of samples in which the interval holds: `benchmarks/coverage_of_intervals.py`.
    """
    score, se, pairs, effective = (
        np.asarray(values, dtype=float) for values in (score, se, pairs, effective)
    )
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        spread = se * np.sqrt((pairs - 1) / pairs) * effective / (effective - 1)
        odds, reach = (
            score / (1 - score),
            np.exp(half_width(spread / (score * (1 - score)), effective)),
        )
        low, high = 1 / (1 + reach / odds), 1 / (1 + 1 / (reach * odds))
    itself = (se == 0) | ((score <= 0) | (score >= 1)) & ~np.isnan(se)
    return np.where(itself, score, low), np.where(itself, score, high)


def p_value(difference: ArrayLike, se: ArrayLike, pairs: ArrayLike) -> NDArray[np.float64]:
    """How probable so large a difference is where there is none: two-sided, by t with `pairs` - 1; NaN below two."""
    size, se = np.abs(np.asarray(difference, dtype=float)), np.asarray(se, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(size > 0, size / se, 0.0)
    return np.where(np.isnan(se), np.nan, 2 * scipy.special.stdtr(_freedom(pairs), -t))


def false_discovery_rates(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each p-value the smallest false discovery rate (Benjamini and Hochberg 1995) at which it survives, or NaN."""
    rates, valid = np.full(p.shape, np.nan), ~np.isnan(p)
    if valid.any():
        rates[valid] = scipy.stats.false_discovery_control(p[valid], method="bh")
    return rates


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each p-value adjusted for all (Holm 1979): below 0.05 none is false in 95 % of cases. NaN does not count."""
    adjusted, valid = np.full(p.shape, np.nan), ~np.isnan(p)
    order = np.argsort(p, axis=None)[: valid.sum()]  # NaN comes last
    steps = p.flat[order] * np.arange(len(order), 0, -1)
    adjusted.flat[order] = np.maximum.accumulate(steps).clip(max=1)
    return adjusted
