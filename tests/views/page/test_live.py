"""What a live page and its answers hold, without a browser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import made_up

from attnscan.views.page.live import aligned, beside_of

TEXTS = st.lists(st.sampled_from("abc"), max_size=12)


class TestAligned:
    @given(TEXTS, TEXTS)
    def test_places_rise_on_both_sides_and_ends_that_are_alike_belong_together(
        self, here: list[str], there: list[str]
    ) -> None:
        found = aligned(here, there)
        for side, tokens in ((0, here), (1, there)):
            places = [pair[side] for pair in found]
            assert places == sorted(set(places))
            assert all(0 <= place < len(tokens) for place in places)
        if here and there and here[0] == there[0]:
            assert (0, 0) in found
        elif here and there and here[-1] == there[-1]:
            assert found[-1] == (len(here) - 1, len(there) - 1)

    @given(TEXTS)
    def test_a_text_is_aligned_with_itself(self, text: list[str]) -> None:
        assert aligned(text, text) == [(place, place) for place in range(len(text))]

    def test_long_texts_take_no_time(self) -> None:
        here, there = ["a", "b"] * 4000, ["b", "a"] * 4001
        assert len(aligned(["x", *here, "y"], ["x", *there, "y"])) == 2


class TestBeside:
    def test_a_head_is_as_far_from_another_as_half_of_what_its_rows_differ_by(self) -> None:
        (one, weights), (other, others) = made_up(2, 3, 6), made_up(2, 3, 6)
        assert other.attention is not None
        changed = others.weights.copy()
        changed[1, 2] = np.roll(changed[1, 2], 1, axis=-1)
        object.__setattr__(other.attention, "weights", changed)
        found = beside_of(one, other)
        true = np.abs(weights.weights - changed).sum(-1).mean(-1) / 2
        assert np.array(found["changed"]) == pytest.approx(true, abs=1e-5)
        assert found["changed"][0] == [0, 0, 0]
        assert found["changed"][1][2] > 0

    def test_of_texts_of_other_lengths_the_words_of_both_count(self) -> None:
        one, other = made_up(1, 1, ["the", "cat", "sat"])[0], made_up(1, 1, ["the", "old", "cat", "sat"])[0]
        assert beside_of(one, other)["aligned"] == [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5)]

    def test_models_of_other_sizes_say_why_not(self) -> None:
        found = beside_of(made_up(1, 2, 4)[0], made_up(2, 2, 4)[0])
        assert found["changed"] is None
        assert "other numbers of layers or heads" in found["whyNotBeside"]
