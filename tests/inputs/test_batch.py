"""Batches filled by tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attnscan.inputs.batch import batches
from attnscan.inputs.sentence import EncodedInput


def _input(length: int) -> EncodedInput:
    return EncodedInput(("w",) * length, (0,) * length, tuple(range(length)), (False,) * length)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120))
def test_batches_hold_every_input_once_and_no_more_than_they_may(lengths: list[int], tokens: int) -> None:
    made = list(batches([_input(length) for length in lengths], tokens))
    assert sorted(len(encoded.tokens) for batch in made for encoded in batch) == sorted(lengths)
    for batch in made:
        assert batch
        longest = max(len(encoded.tokens) for encoded in batch)
        assert len(batch) == 1 or longest * len(batch) <= tokens
