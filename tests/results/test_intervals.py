"""Intervals and p-values against plain loops, SciPy's t distribution, and simulation."""

import math
import warnings

import numpy as np
import pytest
from by_loops import Measured, Score
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnscan.results.intervals import (
    false_discovery_rates,
    half_width,
    holm,
    p_value,
    score_interval,
)
from attnscan.scoring.blocks import effective, error, ratio, residuals

NAN = math.nan


@pytest.mark.parametrize("pairs", [2, 3, 20, 5000])
def test_an_interval_is_as_wide_as_t_says(pairs: int) -> None:
    assert half_width(0.1, pairs) == pytest.approx(0.1 * stats.t(pairs - 1).ppf(0.975))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=2, max_size=12))
def test_a_scores_interval_is_that_of_a_loop(pairs: list[tuple[float, int]]) -> None:
    """Of pairs' shares and numbers of words; it lies around the score, and within 0 and 1."""
    expected = Score([Measured(share * n, n) for share, n in pairs])
    total, n = np.array([(share * n, n) for share, n in pairs]).T
    low, high = score_interval(
        ratio(total, n), error(residuals(total, n)), len(pairs), effective(n)
    )
    assert (float(low), float(high)) == pytest.approx(expected.interval, abs=1e-6)
    assert 0 <= low <= expected.mean() * (1 + 1e-12) and expected.mean() * (1 - 1e-12) <= high <= 1


@pytest.mark.parametrize(
    ("score", "se", "pairs", "effective", "expected"),
    [
        (0.3, 0.1, 1, 1, (NAN, NAN)),
        (NAN, NAN, 0, NAN, (NAN, NAN)),
        (0.3, 0.0, 2, 2, (0.3, 0.3)),
        (0.0, 0.0, 9, 9, (0, 0)),
        (1.0, 0.0, 9, 9, (1, 1)),
        (0.3, 0.4, 2, 1.001, (0, 1)),  # one pair has nearly all of the words
        (1e-300, 1e-300, 9, 9, (0, 0)),
    ],
)
def test_a_scores_interval_at_the_edges(
    score: float, se: float, pairs: int, effective: float, expected: tuple[float, float]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score_interval(score, se, pairs, effective) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("pairs", [5, 20])
def test_intervals_hold_scores_of_skewed_pairs(pairs: int) -> None:
    """Most of 4,000 pairs score next to nothing and a few much, with 1 to 20 words each."""
    rng = np.random.default_rng(pairs)
    n = rng.geometric(0.2, (pairs, 4000)).clip(max=20).astype(float)
    total = n * rng.beta(0.3, 2.7, n.shape)
    count = np.full(4000, pairs)
    score = ratio(total, n)
    se = error(residuals(total, n))
    low, high = score_interval(score, se, count, effective(n))
    assert 0.915 < ((low <= 0.1) & (high >= 0.1)).mean() < 0.96
    assert (np.abs(score - 0.1) <= half_width(se, count)).mean() < 0.89  # a control


def test_a_difference_of_nothing_is_no_find() -> None:
    """Two copies of one model differ by 0 with an error of 0."""
    assert p_value(0.0, 0.0, 9) == 1


def test_a_difference_without_an_error_is_sure() -> None:
    assert p_value(0.1, 0.0, 9) == 0


def test_what_is_not_known_has_no_p_value() -> None:
    assert np.isnan(p_value(0.1, np.nan, 9))
    assert np.isnan(p_value(0.1, 0.1, 1))
    assert np.isnan(half_width(0.1, 0))


def test_false_discovery_rates_follow_benjamini_and_hochberg() -> None:
    """By hand: p m / rank, and none above that of a larger p. What is not known does not count."""
    p = np.array([[0.04, np.nan], [0.01, 0.5]])
    assert false_discovery_rates(p) == pytest.approx(
        np.array([[0.06, np.nan], [0.03, 0.5]]), nan_ok=True
    )
    assert np.isnan(false_discovery_rates(np.array([np.nan]))).all()


def test_holms_p_values_never_fall_and_leave_out_nan() -> None:
    """Of three: 3 x 0.01, then at least that in place of 2 x 0.011, and 0.5 once."""
    assert holm(np.array([0.011, NAN, 0.5, 0.01])) == pytest.approx(
        [0.03, NAN, 0.5, 0.03], nan_ok=True
    )
    assert holm(np.array([0.6, 0.7])).tolist() == [1, 1]
