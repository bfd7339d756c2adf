"""A held result: what is unpacked equals what was packed, and its size is what it takes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.server.held import HeldResult
from attnscan.views.page.live import answer_of, numbers_of


def test_it_answers_as_the_result_does(result: Classification) -> None:
    held = HeldResult(result)
    again = held.result()
    assert answer_of(again, "1", ()) == answer_of(result, "1", ())
    assert numbers_of(again, Head(1, 2)) == numbers_of(result, Head(1, 2))
    del held
    assert np.array_equal(again.kept_attention().weights, result.kept_attention().weights), "the memory is still there"


def test_its_size_is_its_frame_and_all_its_arrays_from_line_to_line(result: Classification) -> None:
    arrays: list[pickle.PickleBuffer] = []
    frame = pickle.dumps(result, protocol=5, buffer_callback=arrays.append)
    lines = sum(-(-array.raw().nbytes // 64) for array in arrays)
    assert HeldResult(result).size == len(frame) + 64 * lines
    assert 64 * lines > result.kept_attention().weights.nbytes


def test_what_is_unpacked_cannot_be_changed_and_begins_on_a_cache_line(result: Classification) -> None:
    attention = HeldResult(result).result().kept_attention()
    for array in (attention.weights, attention.visible, attention.norms):
        assert array is not None and array.ctypes.data % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
