"""What may be changed in one input, and what is said of it."""

from __future__ import annotations

import json

from attnscan.results.predictions import Change, HiddenToken, Prediction
from attnscan.results.terms import Head


def test_places_and_heads_are_sorted_and_told_once_so_that_equal_changes_are_equal() -> None:
    near, far = Head(0, 2), Head(3, 1)
    one, other = Change(hidden=(5, 2, 5), off=(far, near)), Change(hidden=(2, 5), off=(near, far, near))
    assert one == other and hash(one) == hash(other) and one != Change()
    assert (one.hidden, one.off) == ((2, 5), (near, far))


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
    word = HiddenToken(3, "mat\u202e", 0.125, 0.0625, (("cat", 0.5), ("\x1b[31m", 0.25)), (("dog", 0.75),))
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
