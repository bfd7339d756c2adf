"""The controls of a set of heads: distinct, of its layers, and all of them where there are few."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscan.results.grid import Grid, Head
from attnscan.studies.controls import with_controls

WIDTH, LAYERS = 5, 3
GRID = Grid.square(LAYERS, WIDTH)
some_heads = st.lists(st.sampled_from(list(GRID)), unique=True, max_size=8)


def test_controls_are_as_many_heads_of_the_same_layers() -> None:
    heads = [Head(0, 1), Head(0, 2), Head(2, 0)]
    grid = Grid.square(3, 12)
    found = with_controls("x", heads, grid, 20, 0)
    for control in found.controls:
        assert [head.layer for head in control] == [0, 0, 2] and len(set(control)) == 3
        assert not set(control) & set(heads)
    assert found.overlap == 0 and len(set(found.controls)) == 20
    assert found.possible == math.comb(10, 2) * 11 and not found.has_all_controls
    assert with_controls("x", heads, grid, 20, 0) == found != with_controls("x", heads, grid, 20, 1)


def test_of_few_possible_controls_all_are_taken() -> None:
    found = with_controls("x", [Head(0, 0), Head(0, 1), Head(1, 5)], Grid.square(2, 6), 60, 0)
    pairs = itertools.combinations([Head(0, head) for head in range(2, 6)], 2)
    assert set(found.controls) == {(*pair, Head(1, head)) for pair in pairs for head in range(5)}
    assert len(found.controls) == found.possible == 30 and found.has_all_controls
    assert len(with_controls("x", [Head(0, 0), Head(0, 1), Head(1, 5)], Grid.square(2, 6), 29, 0).controls) == 29


def test_barred_heads_are_no_controls() -> None:
    found = with_controls("x", [Head(0, 0)], Grid.square(2, 6), 20, 0, barred={Head(0, 1), Head(0, 4), Head(1, 2)})
    assert found.controls == ((Head(0, 2),), (Head(0, 3),), (Head(0, 5),))


def test_controls_of_crowded_layers_share_heads_with_the_set_and_say_so() -> None:
    found = with_controls("x", [Head(0, 0), Head(0, 1), Head(0, 2), Head(1, 0)], Grid.square(2, 4), 20, 0)
    assert all({Head(0, 3)} < set(control) for control in found.controls)
    assert found.overlap == pytest.approx(2 / 4) and found.possible == math.comb(3, 2) * 3
    barred = with_controls("x", [Head(0, 0), Head(0, 1)], Grid.square(2, 4), 20, 0, barred=[Head(0, 3)])
    assert barred.controls == ((Head(0, 0), Head(0, 2)), (Head(0, 1), Head(0, 2)))


def test_a_set_without_others_in_its_layers_has_no_controls() -> None:
    for found in (
        with_controls("x", [Head(0, head) for head in range(4)], Grid.square(2, 4), 20, 0),
        with_controls("x", [Head(0, 0)], Grid.square(2, 2), 20, 0, barred=[Head(0, 1)]),
        with_controls("x", [], Grid.square(2, 4), 20, 0),
    ):
        assert found.controls == () and found.possible == 0 and not found.has_all_controls


@given(some_heads, some_heads, st.integers(1, 40), st.integers(0, 3))
def test_whatever_is_asked_for(heads: list[Head], barred: list[Head], draws: int, seed: int) -> None:
    found = with_controls("x", heads, GRID, draws, seed, barred)
    assert len(set(found.controls)) == len(found.controls) == min(draws, found.possible)
    for control in found.controls:
        assert list(control) == sorted(set(control)) and control != found.heads
        assert Counter(head.layer for head in control) == Counter(head.layer for head in heads)
        assert not set(control) & (set(barred) - set(heads))
        assert len(set(control) & set(heads)) == pytest.approx(found.overlap * len(heads))


def test_every_control_is_as_likely_as_any_other() -> None:
    counts = Counter(
        control
        for seed in range(600)
        for control in with_controls("x", [Head(0, 0)], Grid.square(2, 6), 2, seed).controls
    )
    assert len(counts) == 5
    assert all(abs(count - 240) < 60 for count in counts.values())  # five standard deviations
