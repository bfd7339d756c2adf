"""How words are read is an option of every command that scores words, and is told where it may surprise."""

from __future__ import annotations

from command_line import run

import attnscan

OFF = ("--model", "bundled", "--predictive", "off", "--no-related")


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
