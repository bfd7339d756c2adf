"""What may be changed in one input, and what is predicted before and after."""

import json

from attnscan.results.grid import Head
from attnscan.results.predictions import Change, HiddenToken, Prediction


def test_equal_changes_are_equal_however_they_are_named() -> None:
    near = Head(0, 2)
    far = Head(3, 1)
    change = Change(hidden=(5, 2, 5), off=(far, near))
    same = Change(hidden=(2, 5), off=(near, far, near))
    assert change == same
    assert hash(change) == hash(same)
    assert change != Change()
    assert (change.hidden, change.off) == ((2, 5), (near, far))


def test_each_change_is_told_in_a_line() -> None:
    change = Change(
        hidden=(1,), positions="shuffled", segments="zeroed", off=(Head(2, 0), Head(11, 3))
    )
    assert change.notes(("[CLS]", "cat", "[SEP]"), 7) == (
        "hidden behind the mask token: cat (1)",
        "the words' positions are shuffled, by seed 7",
        "segments are zeroed",
        "heads switched off: 2-0, 11-3",
    )
    assert Change().notes(("[CLS]",), 0) == ()


def test_a_prediction_is_plain_values_that_json_takes() -> None:
    word = HiddenToken(
        place=3,
        truth="mat\u202e",
        truth_before=0.125,
        truth_after=0.0625,
        before=(("cat", 0.5), ("\x1b[31m", 0.25)),
        after=(("dog", 0.75),),
    )
    prediction = Prediction(
        "words", words=(word,), classes=(("\x07no", 0.25, 0.5),), turned=(0.0, 0.5)
    )
    expected = {
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
    assert json.loads(json.dumps(prediction.as_json())) == expected
