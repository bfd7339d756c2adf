"""How words are read is an option of every command that scores words, and is told where it may surprise."""

from __future__ import annotations

import pytest
from command_line import run

import attnscan
from attnscan.errors import OptionError

OFF = ("--model", "bundled", "--predictive", "off", "--no-related")


def test_typed_special_tokens_are_told() -> None:
    told = "special tokens to the model, and words to attnscan: [SEP], [MASK] in the text"
    assert told in run("classify", "the [SEP] cat [MASK]", "--csv", *OFF).stderr
    assert "special tokens to the model" not in run("classify", "the cat", "--csv", *OFF).stderr


def test_words_between_spaces_are_as_given() -> None:
    of = {"model": "bundled", "predictive": "off", "related": False, "unit": "word"}
    spaced = attnscan.classify("the cat's mat, 我 爱猫", words="spaces", **of)
    expected = attnscan.classify(
        attnscan.Sentence("the cat's mat, 我 爱猫", [(0, 3), (4, 9), (10, 14), (15, 16), (17, 19)]), **of
    )
    assert spaced.units == expected.units == ("[CLS]", "the", "cat's", "mat,", "我", "爱猫", "[SEP]")
    assert spaced.to_frame().drop(columns="model").equals(expected.to_frame().drop(columns="model"))
    assert "words between spaces" in spaced.signature.pattern_set
    assert "cat's" in run("classify", "the cat's mat", "--unit", "word", "--words", "spaces", *OFF).stdout


def test_words_are_for_units_of_words() -> None:
    with pytest.raises(OptionError, match="words='spaces' is for units of words"):
        attnscan.classify("the cat", words="spaces", model="bundled")
