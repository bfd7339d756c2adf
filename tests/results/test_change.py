"""What may be changed in one input, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from attnscan.errors import OptionError
from attnscan.results.change import Change
from attnscan.results.grid import Head


def test_places_and_heads_are_sorted_and_told_once_so_that_equal_changes_are_equal() -> None:
    near, far = Head(0, 2), Head(3, 1)
    one, other = Change(hidden=(5, 2, 5), off=(far, near)), Change(hidden=(2, 5), off=(near, far, near))
    assert one == other and hash(one) == hash(other) and one != Change()
    assert (one.hidden, one.off) == ((2, 5), (near, far))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"positions": "shufled"}, "positions cannot be 'shufled'; did you mean 'shuffled'"),
        ({"segments": "both"}, "segments cannot be 'both'; give kept, swapped or zeroed"),
        ({"segments": None}, "segments cannot be None"),
        ({"hidden": (-1,)}, "no place of a token"),
        ({"hidden": (True,)}, "no place of a token"),
        ({"hidden": ("2",)}, "no place of a token"),
    ],
)
def test_what_there_is_not_is_refused_in_a_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        Change(**given)
    assert "\n" not in str(refused.value)


def test_hidden_words_alone_change_the_input_and_not_what_the_model_makes_of_it() -> None:
    assert not Change(hidden=(3,)).of_model and not Change().of_model
    assert all(c.of_model for c in (Change(positions="shuffled"), Change(segments="zeroed"), Change(off=(Head(0, 0),))))


def test_each_change_is_told_in_a_line() -> None:
    change = Change(hidden=(1,), positions="shuffled", segments="zeroed", off=(Head(2, 0), Head(11, 3)))
    assert change.notes(("[CLS]", "cat", "[SEP]"), 7) == (
        "hidden behind the mask token: cat (1)",
        "the words' positions are shuffled, by seed 7",
        "segments are zeroed",
        "heads switched off: 2-0, 11-3",
    )
    assert Change().notes(("[CLS]",), 0) == ()
