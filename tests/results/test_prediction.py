"""Predictions as plain values."""

from __future__ import annotations

import json

from attnscan.results.prediction import Guesses, HiddenToken, Prediction


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


def test_where_there_is_nothing_to_say_it_says_why() -> None:
    assert Prediction("words", why_none="hide\na word").as_json() == {
        "kind": "words",
        "words": [],
        "classes": [],
        "turned": [],
        "whyNone": "hide\\na word",
    }
