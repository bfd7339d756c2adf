"""What may be changed in one input, and what is predicted before and after."""

import json

import numpy as np
import pytest
from support.small_results import SIGNATURE

from attnscan.results.grid import Head
from attnscan.results.predictions import (
    Change,
    Dependencies,
    HiddenToken,
    Prediction,
    WordDependencies,
)


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


@pytest.mark.parametrize(
    ("change", "changes_model"),
    [
        (Change(), False),
        (Change(hidden=(1,)), False),
        (Change(off=(Head(0, 0),)), True),
        (Change(positions="shuffled"), True),
        (Change(segments="swapped"), True),
        (Change(segments="zeroed", hidden=(1,)), True),
    ],
)
def test_hidden_words_alone_leave_the_model_as_it_is(change: Change, changes_model: bool) -> None:
    assert change.changes_model == changes_model


def test_a_table_of_dependencies_has_a_row_for_each_measured_pair() -> None:
    nan = np.nan
    helping = WordDependencies(
        values=np.array([[nan, 2.0], [0.5, nan]]),
        shares=np.array([[0.0, 1.0], [0.25, 0.0]]),
        places=(1, 3),
        measure="cpmi",
        description="",
    )
    dependencies = Dependencies(
        units=("[CLS]", "a", "b", "c"), sentence=(-1, 0, 0, 0), help=helping, signature=SIGNATURE
    )
    frame = dependencies.to_frame()
    assert frame["query"].tolist() == [1, 3]
    assert frame["query_token"].tolist() == ["a", "c"]
    assert frame["key"].tolist() == [3, 1]
    assert frame["key_token"].tolist() == ["c", "a"]
    assert frame["help"].tolist() == [2.0, 0.5]
    assert frame["target"].tolist() == [1.0, 0.25]
    assert frame.attrs["units"] == ["[CLS]", "a", "b", "c"]
    assert frame.attrs["sentence"] == [-1, 0, 0, 0]
