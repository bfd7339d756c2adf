"""Blocks of pairs: the same ones whatever the order and the shards, in few arrays, and damaged ones refused."""

from __future__ import annotations

import pickle
import pickletools
from functools import reduce
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnscan.inputs.sentence import Pair
from attnscan.scoring.resampling import FEWEST_BLOCKS, MOST_BLOCKS, ROOM, BlockSums, most_blocks, squeezed

COUNT = 100
KEYS = [Pair(f"pair {i}").key for i in range(COUNT)]
SUMS = {
    "on": np.random.default_rng(0).random((COUNT, 2, 3, 4)),
    "n": np.broadcast_to(np.arange(COUNT, dtype=float)[:, None, None, None], (COUNT, 2, 3, 1)),
}


def _of(which: list[int], most: int) -> BlockSums:
    """Of some pairs; what heads have in common is kept once where it is the same for all of these pairs."""
    own = {name: values[which] for name, values in SUMS.items()}
    return BlockSums.of([KEYS[i] for i in which], {**own, "n": squeezed(own["n"])}, most)


@pytest.mark.parametrize("most", [512, 100, 99, 16])
def test_shards_and_order_change_nothing_even_where_pairs_are_put_together(most: int) -> None:
    whole = _of(list(range(COUNT)), most)
    assert len(whole.blocks) == COUNT if most >= COUNT else most / 4 <= len(whole.blocks) <= most
    shuffled = np.random.default_rng(1).permutation(COUNT).tolist()
    for size in (1, 7, 33):
        for order in (list(range(COUNT)), shuffled):
            parts = [_of(order[i : i + size], most) for i in range(0, COUNT, size)]
            for added in (reduce(add, parts), reduce(add, parts[::-1]), parts[0] + reduce(add, parts[1:])):
                assert added.bits == whole.bits and set(added.blocks) == set(whole.blocks)
                for name, values in whole.stacked().items():
                    assert_allclose(added.stacked()[name], values, rtol=1e-12)


def test_a_block_is_the_sum_of_the_pairs_whose_keys_begin_with_its_number() -> None:
    sums = _of(list(range(COUNT)), 16)
    for number, block in sums.blocks.items():
        own = [i for i, key in enumerate(KEYS) if int(key[:16], 16) >> (64 - sums.bits) == number]
        assert_allclose(block["on"], SUMS["on"][own].sum(0))


def test_a_pair_that_comes_twice_counts_twice_in_its_block() -> None:
    twice = _of([0, 0], 512)
    assert list(twice.blocks) == [int(KEYS[0][:16], 16)]
    assert_allclose(twice.stacked()["on"][0], 2 * SUMS["on"][0])


def test_models_of_many_heads_keep_fewer_blocks() -> None:
    assert most_blocks(1) == most_blocks(ROOM // MOST_BLOCKS) == MOST_BLOCKS
    assert most_blocks(2 * ROOM // MOST_BLOCKS) == MOST_BLOCKS // 2 and most_blocks(ROOM) == FEWEST_BLOCKS


@pytest.mark.parametrize("empty", [False, True])
def test_pickles_hold_the_same_sums_in_few_arrays(empty: bool) -> None:
    sums = BlockSums({}) if empty else _of(list(range(60)), 512) + _of(list(range(60, COUNT)), 512)
    content = pickle.dumps(sums, protocol=5)
    again = pickle.loads(content)
    assert (again.bits, again.most, list(again.blocks)) == (sums.bits, sums.most, sorted(sums.blocks))
    for name, values in sums.stacked().items():
        assert (again.stacked()[name] == values).all()
    assert sum(op.name == "BYTEARRAY8" for op, *_ in pickletools.genops(content)) <= 5


def test_what_is_not_of_the_shapes_is_refused() -> None:
    shapes = {"on": (2, 3, 4), "n": (2, 3, 1)}
    sums = _of([0, 1, 2], 512)
    assert sums.checked(shapes) is sums
    for other in ({**shapes, "on": (2, 4, 4)}, {"on": (2, 3, 4)}, {**shapes, "even": (1,)}, {**shapes, "n": (3, 1)}):
        with pytest.raises(ValueError, match=r"blocks of pairs|broadcast"):
            sums.checked(other)
    for damaged in (
        BlockSums(sums.blocks, bits=8),
        BlockSums({1: {"on": np.full((2, 3, 4), np.nan), "n": np.ones(1)}}),
    ):
        with pytest.raises(ValueError, match="blocks of pairs"):
            damaged.checked(shapes)
