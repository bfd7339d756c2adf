"""Effects and their errors, beside the formulas written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from attnscan.scoring.sums import RatioSums
from attnscan.studies.effects import se_beside_controls, sums_beside_controls


def test_differences_from_the_controls_are_summed_in_parts() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 6, 40).astype(float)
    sums = rng.random((40, 4)) * n[:, None]
    compared = [(1, [2, 3]), (1, []), (1, [2])]
    halves = (sums_beside_controls(sums[some, None], n[some, None], compared) for some in (slice(25), slice(25, None)))
    *alone, of_two, of_none, of_one = [a + b for a, b in zip(*halves, strict=True)]
    assert [own.ratio for own in alone] == pytest.approx([sums[:, own].sum() / n.sum() for own in range(4)])
    difference = sums[:, 1] - sums[:, 2:].mean(1)
    assert of_two.ratio == pytest.approx(difference.sum() / n.sum())
    assert of_two.se == pytest.approx(RatioSums.of(difference[:, None], n[:, None]).se)
    assert np.isnan(of_none.ratio).all() and of_one.ratio == pytest.approx((sums[:, 1] - sums[:, 2]).sum() / n.sum())


def _of_pairs(*values: float) -> RatioSums:
    return RatioSums.of(np.array(values)[:, None], np.ones((len(values), 1)))


def test_the_error_is_of_pairs_and_of_draws() -> None:
    difference, controls = _of_pairs(0.5, 0.75, 0.25), np.array([[1.0], [1.5], [1.25]])
    variance = 0.25**2  # of 1, 1.25 and 1.5
    expected = (difference.se**2 + variance / 3 * (1 - 3 / 10)) ** 0.5
    assert se_beside_controls(difference, controls, 10) == pytest.approx(expected)
    assert se_beside_controls(difference, controls, 10**40) == pytest.approx((difference.se**2 + variance / 3) ** 0.5)


def test_nothing_is_left_to_chance_where_all_controls_were_taken() -> None:
    difference = _of_pairs(0.5, 0.75, 0.25)
    assert se_beside_controls(difference, np.array([[1.0], [1.5]]), 2) == difference.se
    assert se_beside_controls(difference, np.array([[1.0]]), 1) == difference.se
    assert np.isnan(se_beside_controls(difference, np.array([[1.0]]), 2)).all()  # one of two tells of no spread
    assert np.isnan(se_beside_controls(_of_pairs(0.5), np.array([[1.0], [1.5]]), 2)).all()


def test_the_draws_part_is_the_variance_of_means_of_distinct_draws() -> None:
    """On average over all draws of 3 among 6: the estimate is unbiased; without the factor it would be twice that."""
    every = np.array([0.0, 1.0, 1.0, 4.0, 7.0, 7.5])
    exact = _of_pairs(0.0, 0.0)  # pairs add nothing
    draws = [np.array(some) for some in itertools.combinations(every, 3)]
    estimates = [float(se_beside_controls(exact, some[:, None], len(every))[0]) ** 2 for some in draws]
    assert np.mean(estimates) == pytest.approx(np.var([some.mean() for some in draws]))
