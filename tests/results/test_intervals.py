"""Intervals and p-values against SciPy's own t distribution, by hand, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from attnscan.results.intervals import false_discovery_rates, half_width, p_value


@pytest.mark.parametrize("pairs", [2, 3, 20, 5000])
def test_an_interval_is_as_wide_as_t_says(pairs: int) -> None:
    """Twelve errors wide with two pairs, two with many."""
    assert half_width(0.1, pairs) == pytest.approx(0.1 * stats.t(pairs - 1).ppf(0.975))


@pytest.mark.parametrize("pairs", [0, 1])
def test_below_two_pairs_there_is_none(pairs: int) -> None:
    """Nor a p-value."""
    assert np.isnan(half_width(0.1, pairs))
    assert np.isnan(p_value(0.1, 0.1, pairs))


def test_a_p_value_falls_below_5_percent_where_the_interval_leaves_0() -> None:
    """The two are one statement."""
    for pairs in (2, 7, 40):
        width = half_width(0.1, pairs)
        assert p_value(width * 1.001, 0.1, pairs) < 0.05 < p_value(-width * 0.999, 0.1, pairs)


def test_a_difference_of_nothing_is_no_find() -> None:
    """Two copies of one model differ by 0 with an error of 0; a difference without an error is sure."""
    assert p_value(0.0, 0.0, 9) == 1
    assert p_value(0.1, 0.0, 9) == 0
    assert np.isnan(p_value(0.1, np.nan, 9))


def test_false_discovery_rates_follow_benjamini_and_hochberg() -> None:
    """By hand: p m / rank, and none above that of a larger p. What is not known does not count."""
    p = np.array([[0.04, np.nan], [0.01, 0.5]])
    assert false_discovery_rates(p) == pytest.approx(np.array([[0.06, np.nan], [0.03, 0.5]]), nan_ok=True)
    assert np.isnan(false_discovery_rates(np.array([np.nan]))).all()


def test_noise_alone_gives_few_false_discoveries() -> None:
    """Among 400 differences of nothing, any survive in about one study of twenty, where p < 0.05 finds 20 in each."""
    rng = np.random.default_rng(0)
    studies, found, naive = 300, 0, 0
    for _ in range(studies):
        p = p_value(rng.standard_t(9, size=400), 1.0, 10)
        found += bool((false_discovery_rates(p) < 0.05).any())
        naive += int((p < 0.05).sum())
    assert found / studies < 0.09
    assert 17 < naive / studies < 23
