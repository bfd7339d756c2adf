"""Patterns of one's own, and what the library takes by name: functions in, errors in a line."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers_of_kinds import encode_pair
from torch import Tensor

import attnscan
from attnscan.errors import InputError, OptionError, SelectionError, WeightsError
from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS, Pattern, chosen

A, B = "i went to the store .", "the cat , i bought straw##berries ."
EXAMPLES = Path(__file__).parents[2] / "examples"


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
    result = attnscan.classify(
        A, B, model=toy, predictive="off", special="in", pattern=[*PATTERNS, two_back, next_again]
    )
    frame = result.to_frame()
    entropy = frame.columns.get_loc("entropy")
    assert list(frame.columns[entropy - 2 : entropy]) == ["two-back", "next-again"]
    assert list(frame["next-again"]) == pytest.approx(list(frame["next-word"]))
    plain = attnscan.classify(A, B, model=toy, predictive="off", special="in").to_frame()
    assert list(frame["delimiter"]) == pytest.approx(list(plain["delimiter"]))
    weights = result.attention.weights if result.attention else None
    assert weights is not None
    expected = np.mean(
        [weights[1, 2, q, q - 2] for q in range(len(result.units)) if result.sentence[q - 2 : q + 1] in SENTENCES]
    )
    assert frame["two-back"][3 + 2] == pytest.approx(expected, abs=1e-6)
    assert "two-back" in result._repr_html_()


SENTENCES = ((0, 0, 0), (1, 1, 1))


def test_patterns_may_be_named(toy: str) -> None:
    ranking = attnscan.heads([A, (A, B)], model=toy, pattern=["delimiter", two_back])
    assert ranking.scores.patterns == ("delimiter", "two-back")


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["delimeter"], "no pattern 'delimeter'; did you mean 'delimiter'?"),
        ([lambda batch: batch.word], "no name"),
    ],
)
def test_patterns_that_cannot_be_meant(patterns: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("?", r"\?")):
        chosen(patterns)


def wrong_shape(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.word


def too_much(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.same_sentence * 2.0


def not_numbers(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.same_sentence * float("nan")


def no_tensor(batch: attnscan.EncodedBatch) -> Any:
    return batch.same_sentence.numpy()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_shape, r"'wrong-shape' gives a target of shape \[1, 8\], not one of shape \[1, 8, 8\]"),
        (too_much, r"'too-much' gives numbers outside \[0, 1\]"),
        (not_numbers, r"'not-numbers' gives numbers outside \[0, 1\]"),
        (no_tensor, "'no-tensor' gives a ndarray"),
    ],
)
def test_what_is_no_target_is_refused(toy: str, function: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        attnscan.classify(A, model=toy, pattern=[function])


def test_characters_lead_to_units() -> None:
    text = "I bought fresh strawberries."
    for unit, expected in (("token", ["straw", "##berries"]), ("word", ["strawberries"])):
        with Scanner(ScanOptions(model="bundled", unit=unit)) as scanner:  # type: ignore[arg-type]
            one = scanner.encode(Pair("I went.", text))
            start = text.index("strawberries")
            assert [one.units[i] for i in one.units_between(1, start, start + 3 + 9)] == expected
            assert one.units_between(1, start, start) == []
            assert [one.units[i] for i in one.units_between(0, 0, 1)] == ["i"]
            assert scanner.collate([one]).inputs == (one,)


def test_characters_that_were_cut_off_have_no_units(tokenizer_of_bundled: Any) -> None:
    one = encode_pair(tokenizer_of_bundled, Pair("one two three four"), "token", 4, truncate=True)
    assert one.units_between(0, 0, 7) == [1, 2] and one.units_between(0, 8, 18) == []


@pytest.fixture(scope="module")
def tokenizer_of_bundled() -> Any:
    with Scanner(ScanOptions(model="bundled")) as scanner:
        return scanner.loaded.tokenizer


def test_saved_weights_know_no_characters(toy: str) -> None:
    result = attnscan.classify(A, model=toy, predictive="off")
    assert result.attention is not None

    def by_character(batch: attnscan.EncodedBatch) -> Tensor:
        batch.inputs[0].units_between(0, 0, 1)
        return batch.same_sentence

    saved = result.attention.saved()
    arrays = {name: getattr(saved, name) for name in ("attention", "tokens", "segments", "special")}
    with pytest.raises(InputError, match="characters of tokens"):
        attnscan.classify(weights=arrays, pattern=[by_character])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "words"}, "no unit 'words'; did you mean 'word'"),
        ({"device": "gpu"}, "no device 'gpu'; "),
        ({"dtype": "int8"}, "no dtype 'int8'; "),
        ({"threshold": 2}, "threshold is 2; give a number, from 0 to 1"),
        ({"batch_tokens": 0}, "batch_tokens is 0; give a whole number, from 1 to"),
        ({"seed": -1}, "seed is -1; give a whole number, from 0 to"),
    ],
)
def test_values_that_there_are_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        attnscan.classify(A, **options)


def test_weights_score_from_arrays_as_from_a_file(toy: str, tmp_path: Path) -> None:
    kept = attnscan.classify(A, B, model=toy, predictive="off")
    assert kept.attention is not None
    saved = kept.attention.saved()
    arrays = {"attention": saved.attention, "tokens": list(saved.tokens), "segments": saved.segments}
    np.savez(tmp_path / "w.npz", **arrays)  # type: ignore[arg-type]
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


def test_heads_are_explained(toy: str) -> None:
    by_name = attnscan.explain("0-0,1-1", A, B, model=toy)
    assert by_name[0, 0].pattern == "next-word" and by_name[0, 0]["positions_shuffled"] < 0.3
    assert list(by_name.to_frame()["head"]) == [0, 1]
    over = attnscan.explain([(0, 0)], pairs=[(A, B), A], pattern="previous-word", model=toy)
    assert over[0, 0].pattern == "previous-word" and over[0, 0].pairs == 2
    with pytest.raises(SelectionError):
        attnscan.explain([(9, 0)], A, model=toy)
    with pytest.raises(OptionError, match="did you mean 'next-word'"):
        attnscan.explain("all", A, pattern="nextword", model=toy)


def test_predictive_is_explained_where_it_is_asked_for() -> None:
    found = attnscan.explain("0-2", "I went home.", pattern="predictive", predictive="auto", model="bundled")
    assert found[0, 2].n > 0


def test_the_example_of_a_verb_and_its_subject(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["own_pattern.py"])
    example = runpy.run_path(str(EXAMPLES / "own_pattern.py"))
    (text, subjects), *_ = example["PARSES"]
    with Scanner(ScanOptions(model="bundled")) as scanner:
        batch = scanner.collate([scanner.encode(Pair(text))])
    units, target = batch.inputs[0].units, example["subject_verb"](batch)[0]
    found = {(units[int(q)], units[int(k)]) for q, k in torch.nonzero(target)}
    assert subjects == {8: 1, 5: 4} and found == {("barking", "dogs")}
    example["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and lines[1].split()[:3] == ["subject-verb", "3", "1"]
