"""Sums and their standard errors: by hand, by a plain loop over pairs, and in any order."""

from __future__ import annotations

import math
import pickle
from functools import reduce
from operator import add
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnscan.results.intervals import half_width
from attnscan.scoring.sums import HeadProducts, RatioProducts, RatioSums, Sums

PAIRS = st.lists(st.tuples(st.floats(0, 5), st.integers(0, 9)), min_size=1, max_size=12)
"""Of each pair its S / n, and its n."""


def _of(pairs: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Each pair's S and n. Shape: [pair]."""
    mean, n = np.array(pairs, dtype=float).T
    return mean * n, n


def _by_a_loop(pairs: list[tuple[float, float, float, float]]) -> float:
    """The covariance of two ratios over pairs of S, n, S' and n', by its definition; at least two pairs have an n."""
    total, n, other_total, other_n = (sum(column) for column in zip(*pairs, strict=True))
    ratio, other = total / n, other_total / other_n
    k, other_k = (sum(pair[place] > 0 for pair in pairs) for place in (1, 3))
    few = math.sqrt(k / (k - 1) * other_k / (other_k - 1))
    return few * sum((s - ratio * k) * (t - other * m) for s, k, t, m in pairs) / (n * other_n)


@given(PAIRS)
def test_a_ratio_and_its_error_are_those_of_a_loop(pairs: list[tuple[float, int]]) -> None:
    total, n = _of(pairs)
    sums = RatioSums.of(total, n)
    with_any = int((n > 0).sum())
    assert (int(sums.n), int(sums.pairs)) == (n.sum(), with_any)
    assert float(sums.ratio) == pytest.approx(total.sum() / n.sum() if with_any else math.nan, nan_ok=True)
    if with_any < 2:
        assert math.isnan(sums.se)
    else:
        variance = _by_a_loop(list(zip(total, n, total, n, strict=True)))
        assert float(sums.se) == pytest.approx(math.sqrt(variance), abs=1e-6)


@given(PAIRS, st.randoms(use_true_random=False), st.integers(1, 4))
def test_order_and_shards_do_not_matter(pairs: list[tuple[float, int]], random: Random, shards: int) -> None:
    whole = RatioSums.of(*_of(pairs))
    shuffled = random.sample(pairs, len(pairs))
    parts = [RatioSums.of(*_of(shard)) for i in range(shards) if (shard := shuffled[i::shards])]
    added = reduce(add, [pickle.loads(pickle.dumps(part)) for part in parts])
    assert (added.n, added.n_squares, added.pairs) == (whole.n, whole.n_squares, whole.pairs)
    assert_allclose(added.ratio, whole.ratio, rtol=1e-12)
    assert_allclose(added.se, whole.se, atol=1e-6)


def test_errors_are_clustered_by_pair() -> None:
    """Sums added pair by pair, of matrices that share each pair's n."""
    rng = np.random.default_rng(0)
    n = rng.integers(1, 9, 30)[:, None, None].astype(float)
    matrices = rng.random((30, 2, 2)) * n
    sums = reduce(add, [RatioSums.of(matrices[k : k + 1], n[k : k + 1]) for k in range(30)])
    mean = matrices.sum(0) / n.sum()
    assert_allclose(sums.ratio, mean)
    assert_allclose(sums.se, np.sqrt(30 / 29 * ((matrices - mean * n) ** 2).sum(0)) / n.sum())
    assert np.isnan(RatioSums.of(matrices[:1], n[:1]).se).all()


def test_places_without_a_query_say_nothing_and_spoil_nothing() -> None:
    total, n = np.array([[1.0, 0, 2], [2.0, 0, 0]]), np.array([[2.0, 0, 4], [2.0, 0, 0]])
    sums = RatioSums.of(total, n)
    assert_allclose(sums.ratio, [0.75, np.nan, 0.5])
    assert_allclose(sums.se, [np.sqrt(2 * (0.25 + 0.25)) / 4, np.nan, np.nan])
    assert sums.pairs.tolist() == [2, 0, 1]


def test_the_error_of_a_difference_is_that_of_a_loop() -> None:
    rng = np.random.default_rng(1)
    n, other_n = rng.integers(1, 9, (2, 30, 3)).astype(float)
    total = rng.random((30, 3)) * n
    other_total = total * other_n / n + rng.random((30, 3)) / 4
    one, other = RatioSums.of(total, n), RatioSums.of(other_total, other_n)
    terms = (total, n, other_total, other_n)
    halves = [RatioProducts.of(*(values[half] for values in terms)) for half in (slice(11), slice(11, None))]
    error = one.se_of_difference(other, halves[0] + halves[1])
    for column in range(3):
        by_pair = np.stack([values[:, column] for values in terms], -1)
        variance = (
            _by_a_loop(by_pair[:, [0, 1, 0, 1]].tolist())
            - 2 * _by_a_loop(by_pair.tolist())
            + _by_a_loop(by_pair[:, [2, 3, 2, 3]].tolist())
        )
        assert error[column] == pytest.approx(math.sqrt(variance))
    assert (error < np.hypot(one.se, other.se)).all()  # the pairs are the same: a control


@given(PAIRS)
def test_equal_ratios_differ_by_exactly_nothing(pairs: list[tuple[float, int]]) -> None:
    total, n = _of(pairs)
    sums = RatioSums.of(total, n)
    error = float(sums.se_of_difference(sums, RatioProducts.of(total, n, total, n)))
    assert math.isnan(error) if sums.pairs < 2 else error == 0


def test_standard_error_of_two_pairs_by_hand() -> None:
    """Pairs with S = 1 of n = 1 and S = 1 of n = 3: the score is 1/2, the residuals 1/2 and -1/2, the factor 2/1."""
    weight, n = (np.array(values, dtype=float).reshape(2, 1, 1, 1) for values in ([1, 1], [1, 3]))
    table = Sums.of(weight, n, np.zeros_like(n), weight, weight).finish()
    assert table.score.item() == 0.5
    assert table.se.item() == pytest.approx((2 * 0.5) ** 0.5 / 4)
    assert (table.n.item(), table.pairs.item(), table.effective_pairs.item()) == (4, 2, 1.6)


def test_the_error_between_any_two_heads_is_that_of_a_loop() -> None:
    """One of four heads nearly equals another: its error is far smaller than two independent ones would give."""
    rng = np.random.default_rng(2)
    n = rng.integers(1, 9, (30, 2, 2, 2)).astype(float)
    total = rng.random((30, 2, 2, 2)) * n
    total[:, 1, 1], n[:, 1, 1] = total[:, 0, 0] + 0.01 * rng.random((30, 2)), n[:, 0, 0]
    parts = [slice(11), slice(11, None)]
    products = reduce(add, [HeadProducts.of(total[part], n[part]) for part in parts])
    sums = RatioSums.of(total, n)
    error = products.se_between(sums)
    assert error.shape == (2, 4, 4)
    for pattern in range(2):
        flat, counts = total[..., pattern].reshape(30, 4), n[..., pattern].reshape(30, 4)
        for one in range(4):
            for other in range(4):
                a, b = RatioSums.of(flat[:, one], counts[:, one]), RatioSums.of(flat[:, other], counts[:, other])
                both = RatioProducts.of(flat[:, one], counts[:, one], flat[:, other], counts[:, other])
                assert error[pattern, one, other] == pytest.approx(float(a.se_of_difference(b, both)), abs=1e-9)
        assert error[pattern, 0, 3] < np.hypot(*sums.se[[0, 1], [0, 1], pattern]) / 10  # a control


def test_errors_between_heads_need_two_pairs() -> None:
    one = np.ones((1, 1, 2, 1))
    assert np.isnan(HeadProducts.of(one, one).se_between(RatioSums.of(one, one))).all()


@pytest.mark.parametrize("pairs", [2, 5, 20])
def test_intervals_hold_the_truth_as_often_as_they_say(pairs: int) -> None:
    """Ratios of clusters of unlike size, drawn 4,000 times; without the factor and t it would be 0.70 of 2 pairs."""
    rng = np.random.default_rng(pairs)
    n = rng.integers(3, 12, (pairs, 4000)).astype(float)
    sums = RatioSums.of(n * (0.4 + rng.normal(0, 0.1, (pairs, 4000))), n)
    covered = np.abs(sums.ratio - 0.4) <= half_width(sums.se, sums.pairs)
    assert 0.925 < covered.mean() < 0.97
    normal = np.abs(sums.ratio - 0.4) <= 1.96 * sums.se * np.sqrt((pairs - 1) / pairs)
    assert normal.mean() < 0.94  # a control: what was claimed before


@pytest.mark.parametrize("alike", [True, False])
def test_products_are_of_every_two_heads_whether_their_counts_are_alike_or_not(alike: bool) -> None:
    """Held against a loop; where counts are alike, one column of them stands for all."""
    rng = np.random.default_rng(0)
    total = rng.random((5, 2, 3, 2))
    n = np.broadcast_to(rng.integers(0, 9, (5, 1, 1, 2)), total.shape).astype(float)
    if not alike:
        n[3, 1, 2, 0] += 1
    found, (s, c) = HeadProducts.of(total, n), (values.reshape(5, 6, 2) for values in (total, n))
    for p in range(2):
        for one in range(6):
            for other in range(6):
                assert found.totals[p, one, other] == pytest.approx((s[:, one, p] * s[:, other, p]).sum())
                assert found.total_n[p, one, other] == pytest.approx((s[:, one, p] * c[:, other, p]).sum())
                assert found.counts[p, one, other] == (c[:, one, p] * c[:, other, p]).sum()
