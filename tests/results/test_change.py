"""What may be changed in one input, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attnscan.errors import OptionError
from attnscan.results.change import Change, Guesses, HiddenToken, Prediction
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
        ({"hidden": (-1,)}, "not the index of a token"),
        ({"hidden": (True,)}, "not the index of a token"),
        ({"hidden": ("2",)}, "not the index of a token"),
    ],
)
def test_what_there_is_not_is_refused_in_a_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        Change(**given)
    assert "\n" not in str(refused.value)


def test_each_change_is_told_in_a_line() -> None:
    change = Change(hidden=(1,), positions="shuffled", segments="zeroed", off=(Head(2, 0), Head(11, 3)))
    assert change.notes(("[CLS]", "cat", "[SEP]"), 7) == (
        "hidden behind the mask token: cat (1)",
        "the words' positions are shuffled, by seed 7",
        "segments are zeroed",
        "heads switched off: 2-0, 11-3",
    )
    assert Change().notes(("[CLS]",), 0) == ()


def test_all_that_is_predicted_is_told_in_plain_values_that_json_takes() -> None:
    before, after = Guesses((("cat", 0.5), ("\x1b[31m", 0.25)), 0.125), Guesses((("dog", 0.75),), 0.0625)
    word = HiddenToken(3, "mat\u202e", before, after)
    prediction = Prediction("words", words=(word,), classes=(("\x07no", 0.25, 0.5),), turned=(0.0, 0.5))
    assert json.loads(json.dumps(prediction.as_json())) == {
        "kind": "words",
        "words": [
            {
                "place": 3,
                "truth": "mat\\u202e",
                "truthBefore": 0.125,
                "truthAfter": 0.0625,
                "before": [["cat", 0.5], ["\\x1b[31m", 0.25]],
                "after": [["dog", 0.75]],
            }
        ],
        "classes": [{"name": "\\x07no", "before": 0.25, "after": 0.5}],
        "turned": [0.0, 0.5],
        "whyNone": "",
    }
