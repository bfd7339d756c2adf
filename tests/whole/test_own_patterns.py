"""Patterns of one's own, and what the library takes by name: functions in, errors in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import Tensor

import attnscan
from attnscan.errors import InputError, OptionError, SelectionError, WeightsError
from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS, Pattern

A, B = "i went to the store .", "the cat , i bought straw##berries ."


def two_back(batch: attnscan.EncodedBatch) -> Tensor:
    """Each word looks at the word before the one before it.

    More lines are not shown.
    """
    return batch.same_sentence & (batch.offset == -2)


def next_again(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.same_sentence & (batch.offset == 1)


def test_a_function_is_a_pattern() -> None:
    pattern = Pattern.of(two_back)
    assert (pattern.id, pattern.letter) == ("two-back", "T")
    assert pattern.counts == "each word looks at the word before the one before it"
    assert Pattern.of(next_again).counts == "weight on the targets of next-again"


def test_a_pattern_of_ones_own_scores_as_ours_does(toy: str) -> None:
    asked: Any = {"model": toy, "predictive": "off", "special": "in"}
    result = attnscan.classify(A, B, pattern=[*PATTERNS, two_back, next_again], **asked)
    frame = result.to_frame()
    entropy = frame.columns.get_loc("entropy")
    assert list(frame.columns[entropy - 2 : entropy]) == ["two-back", "next-again"]
    assert list(frame["next-again"]) == pytest.approx(list(frame["next-word"]))
    assert list(frame["delimiter"]) == pytest.approx(list(attnscan.classify(A, B, **asked).to_frame()["delimiter"]))
    weights, sentence = result.kept_attention().weights, result.sentence
    inside = [q for q in range(len(result.units)) if sentence[q - 2 : q + 1] in ((0, 0, 0), (1, 1, 1))]
    assert frame["two-back"][3 + 2] == pytest.approx(np.mean([weights[1, 2, q, q - 2] for q in inside]), abs=1e-6)
    assert "two-back" in result._repr_html_()
    ranking = attnscan.heads([A, (A, B)], model=toy, pattern=["delimiter", two_back])
    assert ranking.scores.patterns == ("delimiter", "two-back")


def wrong_shape(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.word


def too_much(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.same_sentence * 2.0


def not_numbers(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.same_sentence * float("nan")


def no_tensor(batch: attnscan.EncodedBatch) -> Any:
    return batch.same_sentence.numpy()


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("delimeter", r"no pattern 'delimeter'; did you mean 'delimiter'\?"),
        (lambda batch: batch.word, "no name"),
        (wrong_shape, r"'wrong-shape' gives a target of shape \[1, 8\], not one of shape \[1, 8, 8\]"),
        (too_much, r"'too-much' gives numbers outside \[0, 1\]"),
        (not_numbers, r"'not-numbers' gives numbers outside \[0, 1\]"),
        (no_tensor, "'no-tensor' gives a ndarray"),
    ],
)
def test_what_is_no_pattern_is_refused(toy: str, pattern: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        attnscan.classify(A, model=toy, pattern=[pattern])


def test_characters_lead_to_units() -> None:
    text = "I bought fresh strawberries."
    for unit, expected in (("token", ["straw", "##berries"]), ("word", ["strawberries"])):
        with Scanner(ScanOptions(model="bundled", unit=unit)) as scanner:  # type: ignore[arg-type]
            one = scanner.encode(Pair("I went.", text))
            start = text.index("strawberries")
            assert [one.units[i] for i in one.units_between(1, start, start + 3 + 9)] == expected
            assert one.units_between(1, start, start) == []
            assert [one.units[i] for i in one.units_between(0, 0, 1)] == ["i"]


def test_weights_score_from_arrays_as_from_a_file(toy: str, tmp_path: Path) -> None:
    saved = attnscan.classify(A, B, model=toy, predictive="off").kept_attention().saved()
    arrays: Any = {"attention": saved.attention, "tokens": list(saved.tokens), "segments": saved.segments}
    np.savez(tmp_path / "w.npz", **arrays)
    by_file, by_arrays = attnscan.classify(weights=tmp_path / "w.npz"), attnscan.classify(weights=arrays, name="jax")
    assert by_file.signature.model == "w.npz" and by_arrays.signature.model == "jax"
    columns = ["next-word", "delimiter", "entropy"]
    pd.testing.assert_frame_equal(by_file.to_frame()[columns], by_arrays.to_frame()[columns])
    expected = attnscan.classify(A, B, model=toy, predictive="off", related=False).to_frame()
    assert np.allclose(by_file.to_frame()[columns], expected[columns], atol=1e-6)
    with pytest.raises(WeightsError, match="no array 'tokens'"):
        attnscan.classify(weights={"attention": saved.attention, "segments": saved.segments})
    with pytest.raises(WeightsError, match="sums to"):
        attnscan.classify(weights={**arrays, "attention": saved.attention * 2})

    def by_character(batch: attnscan.EncodedBatch) -> Tensor:
        batch.inputs[0].units_between(0, 0, 1)
        return batch.same_sentence

    with pytest.raises(InputError, match="characters of tokens"):
        attnscan.classify(weights=arrays, pattern=[by_character])


def test_heads_are_explained(toy: str) -> None:
    by_name = attnscan.explain("0-0,1-1", A, B, model=toy)
    assert by_name[0, 0].pattern == "next-word" and by_name[0, 0]["positions_shuffled"] < 0.3
    assert list(by_name.to_frame()["head"]) == [0, 1]
    over = attnscan.explain([(0, 0)], pairs=[(A, B), A], pattern="previous-word", model=toy)
    assert over[0, 0].pattern == "previous-word" and over[0, 0].pairs == 2
    predicting = attnscan.explain("0-2", "I went home.", pattern="predictive", predictive="auto", model="bundled")
    assert predicting[0, 2].n > 0
    with pytest.raises(SelectionError):
        attnscan.explain([(9, 0)], A, model=toy)
