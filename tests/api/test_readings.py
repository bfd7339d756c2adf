"""Other readings of a result are computed from the attention that it has kept, when asked for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attnscan
from attnscan.api.readings import with_every_reading
from attnscan.errors import OptionError
from attnscan.results.signature import EVERY_READING, AttentionView

A = "The strawberries sat on the mat, and the cat ran."
B = "A cat ran to the store!"


def _classified(**options: Any) -> attnscan.HeadScores:
    result: attnscan.HeadScores = attnscan.classify(
        A, B, model="bundled", predictive="off", **options
    )
    return result


def test_classify_computes_the_reading_that_was_asked_for() -> None:
    assert list(_classified().labels_by) == [AttentionView("weight", "out")]
    carried = _classified(by="carried", special="in")
    assert list(carried.labels_by) == [AttentionView("carried", "in")]
    assert list(carried.scores_by) == ["carried"]


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("reading", EVERY_READING)
def test_another_reading_is_that_of_classify(reading: AttentionView, unit: str) -> None:
    from_kept = attnscan.with_reading(_classified(unit=unit), reading.by, reading.special)
    scored = _classified(unit=unit, by=reading.by, special=reading.special)
    for name in ("score", "chance", "n"):
        np.testing.assert_allclose(
            getattr(from_kept.table, name), getattr(scored.table, name), atol=1e-6
        )
    assert (from_kept.label == scored.label).all()
    assert from_kept.reading == scored.reading == reading
    np.testing.assert_allclose(from_kept.profile.share, scored.profile.share, atol=1e-6)


def test_saved_weights_have_special_tokens_in_and_out() -> None:
    attention = _classified().kept_attention()
    arrays = {
        "attention": attention.weights,
        "tokens": attention.tokens,
        "segments": attention.segments,
    }
    result = attnscan.classify(weights=arrays)
    with_special = attnscan.with_reading(result, special="in")
    assert with_special.reading == AttentionView("weight", "in")
    with pytest.raises(OptionError, match="what heads carry is not in this result"):
        attnscan.with_reading(result, by="carried")


def test_without_attention_there_is_one_reading() -> None:
    result = _classified(keep_attention=False)
    assert attnscan.with_reading(result) == result
    with pytest.raises(
        OptionError, match=r"this result is by attention weight, among words; .*keep"
    ):
        attnscan.with_reading(result, special="in")
    assert list(with_every_reading(result).labels_by) == [AttentionView("weight", "out")]


def test_a_result_is_not_changed_by_another_reading() -> None:
    result = _classified()
    before = dict(result.labels_by)
    attnscan.with_reading(result, by="carried")
    assert dict(result.labels_by) == before


def test_the_page_of_a_result_has_every_reading() -> None:
    every = {reading.by + "-words" * reading.words_only for reading in EVERY_READING}
    html = attnscan.report(_classified()).html
    assert all(f'"{name}"' in html for name in every)


def test_the_page_of_a_passage_says_that_it_has_one_reading() -> None:
    result = _classified()
    part = replace(result.cut(attnscan.results.attention.Selection(window=(1, 5))))
    html = attnscan.report(part).html
    assert "this page was made by attention weight, among words; make one with --special in" in html
