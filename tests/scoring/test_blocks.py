"""Blocks of pairs: the same ones whatever the order and the shards; ratios and their errors by
plain loops.
"""

import pickle
from functools import reduce
from operator import add

import numpy as np
import pytest
from by_loops import Measured, Score
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from attnscan.inputs.sentence import Pair
from attnscan.results.intervals import half_width
from attnscan.results.scores import RESAMPLINGS
from attnscan.scoring.blocks import (
    BITS,
    MAX_BLOCKS,
    MIN_BLOCKS,
    PairSums,
    add_sums,
    effective,
    error,
    grouped_key,
    ratio,
    resamples,
    residuals,
)

COUNT = 100
KEYS = [Pair(f"pair {i}").key for i in range(COUNT)]
SUMS = {
    "on": np.random.default_rng(0).random((COUNT, 2, 3, 4)),
    "n": np.broadcast_to(np.arange(COUNT, dtype=float)[:, None, None, None], (COUNT, 2, 3, 1)),
}
PAIRS = st.lists(st.tuples(st.floats(0, 5), st.integers(0, 9)), min_size=1, max_size=12)
"""Of each pair its S / n, and its n."""


def _of(which: list[int], most: int) -> PairSums:
    return PairSums.of(
        [KEYS[i] for i in which], {name: values[which] for name, values in SUMS.items()}, most
    )


@pytest.mark.parametrize("most", [512, 100, 99, 16, 1])
def test_shards_and_order_change_no_block(most: int) -> None:
    whole = _of(list(range(COUNT)), most)
    assert len(whole.keys) == COUNT if most >= COUNT else most / 4 <= len(whole.keys) <= most
    shuffled = np.random.default_rng(1).permutation(COUNT).tolist()
    for size in (1, 7, 33):
        for order in (list(range(COUNT)), shuffled):
            parts = [
                pickle.loads(pickle.dumps(_of(order[i : i + size], most)))
                for i in range(0, COUNT, size)
            ]
            for total in (
                reduce(add, parts),
                reduce(add, parts[::-1]),
                parts[0] + reduce(add, parts[1:]),
            ):
                assert total.bits == whole.bits
                assert_array_equal(total.keys, whole.keys)
                for name, values in whole.sums.items():
                    assert_allclose(total.sums[name], values, rtol=1e-12)


@pytest.mark.parametrize("most", [512, 16, 1])
def test_a_block_sums_the_pairs_whose_keys_begin_with_its_key(most: int) -> None:
    sums = _of(list(range(COUNT)), most)
    for number, block in zip(sums.keys.tolist(), sums.sums["on"], strict=True):
        members = [
            i for i, key in enumerate(KEYS) if int(key[:16], 16) >> (64 - sums.bits) == number
        ]
        assert_allclose(block, SUMS["on"][members].sum(0))


def test_what_one_of_two_does_not_name_is_zero_in_it() -> None:
    one = _of([0, 1], 512)
    other = PairSums.of([KEYS[1]], {"asked": np.ones((1, 2))}, 512)
    for total in (one + other, other + one):
        second = total.keys.tolist().index(int(KEYS[1][:16], 16))
        assert_allclose(total.sums["on"].sum(0), SUMS["on"][:2].sum(0))
        assert total.sums["asked"][second].tolist() == [1, 1]
        assert total.sums["asked"].sum() == 2


def test_none_is_an_empty_sum() -> None:
    one = _of([0, 1], 512)
    assert add_sums(None, one) is one
    assert add_sums(one, None) is one
    assert add_sums(None, None) is None


def test_mappings_of_sums_add_name_by_name() -> None:
    assert add_sums({"a": 1}, {"a": 2, "b": 3}) == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("numbers", "most"), [(1 << 15, MAX_BLOCKS), (1 << 16, MAX_BLOCKS // 2), (1 << 19, MIN_BLOCKS)]
)
def test_models_of_many_heads_keep_fewer_blocks(numbers: int, most: int) -> None:
    """So many that they hold 64 MB, but never so few that errors would be by few clusters."""
    sums = PairSums.of(KEYS[:1], {"on": np.zeros((1, numbers))})
    assert sums.most == most
    size = sums.most * sums.sums["on"].nbytes
    assert size == 64 << 20 or sums.most == MIN_BLOCKS


def test_blocks_that_are_limited_are_those_of_fewer_from_the_start() -> None:
    whole = _of(list(range(COUNT)), 512)
    assert_array_equal(whole.limited(16).keys, _of(list(range(COUNT)), 16).keys)


def _score(total: np.ndarray, n: np.ndarray) -> Score:
    """The loop's score of some pairs. Shape: [pair] twice."""
    return Score([Measured(*pair) for pair in zip(total, n, strict=True)])


@given(PAIRS)
def test_a_ratio_and_its_error_are_those_of_a_loop(pairs: list[tuple[float, int]]) -> None:
    expected = Score([Measured(mean * n, n) for mean, n in pairs])
    total, n = np.array([(mean * n, n) for mean, n in pairs], dtype=float).T
    assert float(ratio(total, n)) == pytest.approx(expected.mean(), nan_ok=True)
    assert float(error(residuals(total, n))) == pytest.approx(expected.se, abs=1e-6, nan_ok=True)


def test_the_error_of_a_difference_is_that_of_a_loop() -> None:
    """In the third place no pair has a query and in the fourth a single one, which say nothing and
    spoil nothing.
    """
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, (2, 30, 4)).astype(float)
    counts[:, :, 2] = 0
    counts[:, 1:, 3] = 0
    n, other_n = counts
    share = rng.random((30, 4))
    total = share * n
    other_total = (share + rng.random((30, 4)) / 8) * other_n
    one = residuals(total, n)
    other = residuals(other_total, other_n)
    of_difference = error(one - other)
    for column in range(4):
        ours = _score(total[:, column], n[:, column])
        theirs = _score(other_total[:, column], other_n[:, column])
        assert ratio(total, n)[column] == pytest.approx(ours.mean(), nan_ok=True)
        assert of_difference[column] == pytest.approx(ours.se_beside(theirs), nan_ok=True)
    assert np.isnan(of_difference).tolist() == [False, False, True, True]
    # A control: the pairs are the same, and the error less than that of two independent scores
    assert (of_difference < np.hypot(error(one), error(other)))[:2].all()


@pytest.mark.parametrize("pairs", [2, 5, 20])
def test_intervals_hold_the_truth_as_often_as_they_say(pairs: int) -> None:
    """Ratios of clusters of unlike size, drawn 4,000 times; without the factor and t it would be
    0.70 of 2 pairs.
    """
    rng = np.random.default_rng(pairs)
    n = rng.integers(3, 12, (pairs, 4000)).astype(float)
    total = n * (0.4 + rng.normal(0, 0.1, (pairs, 4000)))
    off = np.abs(ratio(total, n) - 0.4)
    se = error(residuals(total, n))
    assert 0.925 < (off <= half_width(se, np.full(4000, pairs))).mean() < 0.97
    # A control: what was claimed before
    assert (off <= 1.96 * se * np.sqrt((pairs - 1) / pairs)).mean() < 0.94


def test_so_many_pairs_of_one_size_tell_as_much() -> None:
    """Kish's effective size; without a query there is none."""
    n = np.array([[2.0, 5.0, 0.0], [2.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    assert_allclose(effective(n), [64 / 24, 1, np.nan])


def test_a_pair_of_a_bin_of_length_begins_with_its_number() -> None:
    """A bin begins at √2 times where the one before it begins; without words it is the first."""
    bins = {0: 0, 1: 0, 2: 2, 3: 3, 4: 4, 5: 4, 6: 5, 8: 6, 1024: 20}
    for words, number in bins.items():
        assert grouped_key("f" * 16, None, words) == f"{number:06x}" + "f" * 16


def test_a_pair_of_a_named_group_is_in_no_bin_of_length() -> None:
    keys = [grouped_key("f" * 16, name, 10) for name in ("a", "b", "a")]
    assert keys[0] == keys[2]
    assert keys[0] != keys[1]
    for key in keys:
        assert int(key[:6], 16) >= 1 << 23
        assert key[6:] == "f" * 16


@pytest.mark.parametrize("at_once", [7, 64, RESAMPLINGS, 10**6])
def test_every_resample_draws_as_many_units_as_there_are(at_once: int) -> None:
    parts = list(resamples(9, 0, at_once))
    assert {len(part) for part in parts[:-1]} <= {at_once}
    times = np.concatenate(parts)
    assert times.shape == (RESAMPLINGS, 9)
    assert set(times.sum(1)) == {9}
    assert times.mean(0) == pytest.approx(1, abs=0.2)
    assert_array_equal(times, next(resamples(9, 0, RESAMPLINGS)))


def test_blocks_that_are_cut_to_nothing_are_one() -> None:
    one = _of(list(range(COUNT)), 1)
    assert one.bits >= 0
    assert len(one.keys) == 1
    nothing = PairSums(np.array([1 << 63, 1], np.uint64), {"on": np.ones((2, 1))}).limited(1)
    assert nothing.bits == BITS - 64
    assert nothing.keys.tolist() == [0]
    assert nothing.sums["on"].tolist() == [[2.0]]
