"""How heads make their patterns: constructed heads, whose ways are known, and a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from families import TAPPED, UNTAPPED, tiny_model
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from toy import save_toy_bert, toy_tokenizer

import attnscan
from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair, Record
from attnscan.model import tap
from attnscan.results.attention import Attention
from attnscan.results.explanation import CAUSES, SHUFFLED, Explanations, conclusion, effects, evidence, gone_by, sign
from attnscan.results.terms import Head
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies.explanation import explain, explain_input

NEXT, THREE, IDENTICAL, FIRST, NOTHING = Head(0, 0), Head(0, 1), Head(0, 2), Head(1, 0), Head(1, 1)
PLAN = {
    NEXT.place: "next-word",
    THREE.place: "delimiter by three neurons",
    IDENTICAL.place: "identical",
    FIRST.place: "bag of first sentence",
}
LONG_AND_SHORT = Pair("the cat sat on the mat and the dog ran to a store", "a dog ran .")


def _record(pair: Pair) -> Record:
    return Record(pair, "here")


def _explained(scanner: Scanner, pair: Pair, heads: Sequence[Head] | None = None) -> Explanations:
    return explain_input(scanner, _record(pair), scanner.encode(pair), heads or tuple(scanner.grid()))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("explained"), 2, 4, PLAN))


@pytest.fixture(scope="module")
def found(toy: str) -> Explanations:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        return _explained(scanner, (LONG_AND_SHORT))


def _of(found: Explanations, head: Head, pattern: str) -> pd.Series[Any]:
    return Explanations(**{**vars(found), "pattern": pattern})[head]


def test_a_head_that_reads_positions_needs_them_and_a_neuron_for_each(found: Explanations) -> None:
    head = found[NEXT]
    assert (head.label, head.pattern) == ("next-word", "next-word")
    assert head.score == pytest.approx(1, abs=1e-4)
    assert head["positions_shuffled"] < 0.25
    assert head["stability"] < 0.1 and head["effective_neurons"] == pytest.approx(1, abs=0.01)
    assert head["segments_zeroed"] == head["segments_swapped"] == pytest.approx(head.score)
    assert head.conclusion.startswith("0-0 follows next-word by position: its next-word score of 1.00 falls to 0.")
    assert head.conclusion.endswith("stays at 1.00 with the segment ids exchanged.")


def test_a_head_of_three_neurons_has_three_and_always_the_same(found: Explanations) -> None:
    head = found[THREE]
    assert head.label == "delimiter"
    assert head["effective_neurons"] == pytest.approx(3, abs=0.01)
    assert head["stability"] == pytest.approx(1)
    assert head["effective_neurons_rotated"] > 8 and sign(head, "effective_neurons") == "<"
    assert head.conclusion == (
        "0-1 follows delimiter by content: its delimiter score of 1.00 stays at 1.00 with the words' positions "
        "shuffled, stays at 1.00 with all segment ids 0, stays at 1.00 with the segment ids exchanged."
    )


def test_a_head_that_reads_words_needs_neither_positions_nor_segments(found: Explanations) -> None:
    head = found[IDENTICAL]
    assert head.label == "identical"
    assert all(head[cause] == pytest.approx(head.score, abs=1e-4) for cause in CAUSES)
    assert "follows identical by content" in head.conclusion


def test_a_head_that_reads_segments_follows_them(found: Explanations) -> None:
    """Most words stand in A. With segments exchanged, what this head did for them it does for the few of B."""
    head = _of(found, FIRST, "bag-of-words")
    words_of_a, words_of_b = 13, 4
    assert head.score == pytest.approx(1, abs=1e-3) and head.n == words_of_a  # the others give nothing to words
    assert head["segments_swapped"] == pytest.approx(words_of_b / words_of_a, abs=1e-3)
    assert head["segments_zeroed"] != pytest.approx(head.score, abs=0.01)
    assert head["positions_shuffled"] == pytest.approx(head.score, abs=1e-4)
    assert head.by == "by segment" and "falls to 0.31 with the segment ids exchanged" in head.conclusion


def test_pairs_say_what_their_inputs_say_one_by_one(toy: str) -> None:
    pairs = [Pair("the cat sat on the mat", "a dog ran"), Pair("i went to the store ."), Pair("a cat", "the cat ran")]
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        together = explain(scanner, [_record(pair) for pair in pairs])
        backwards = explain(scanner, [_record(pair) for pair in reversed(pairs)])
        alone = [_explained(scanner, (pair)) for pair in pairs]
    assert together.signature.pairs_read == 3
    assert_allclose(together.score, backwards.score, atol=1e-12)
    total = sum(np.nan_to_num(each.score * each.n) for each in alone)
    assert_allclose(np.nan_to_num(together.score * together.n), total, atol=1e-5)
    assert_allclose(together.neurons, backwards.neurons, atol=1e-12)


def _head(score: float, shuffled: float, fall_se: float, pairs: int = 20) -> pd.Series[Any]:
    """A head whose positions were shuffled; its segments make no difference."""
    row = {"pattern": "next-word", "score": score, "chance": 0.1, "above_chance": (score - 0.1) / 0.9, "pairs": pairs}
    row |= {SHUFFLED: shuffled, "segments_zeroed": score, "segments_swapped": score, f"{SHUFFLED}_fall_se": fall_se}
    row |= {"segments_zeroed_fall_se": 0.0, "segments_swapped_fall_se": 0.0}
    row["by"] = gone_by(row)
    return pd.Series(row, dtype=object)


@pytest.mark.parametrize(
    ("head", "effect", "says"),
    [
        (_head(0.6, 0.1, 0.05), "falls", "by position: its next-word score of 0.60 falls to 0.10 with the words'"),
        (_head(0.6, 0.45, 0.02), "falls in part", "in part by position: its next-word score of 0.60 falls in part to"),
        (_head(0.6, 0.58, 0.02), "stays", "by content: its next-word score of 0.60 stays at 0.58"),
        (_head(0.6, 0.1, 0.3), "uncertain", "follows next-word: its next-word score of 0.60 is uncertain at 0.10 "),
        (_head(0.6, 0.58, 0.2), "uncertain", "is uncertain at 0.58"),
        (_head(0.6, 0.1, 0.22, pairs=1), "uncertain", "is uncertain at 0.10"),  # over 8 shuffles
        (_head(0.6, 0.1, float("nan"), pairs=1), "falls", "by position"),
        (_head(0.6, float("nan"), float("nan")), "", "follows next-word: its next-word score of 0.60 stays at "),
        (_head(0.6, float("nan"), float("nan")), "", "; positions cannot be changed in this model."),
    ],
)
def test_a_fall_within_its_error_is_not_claimed(head: pd.Series[Any], effect: str, says: str) -> None:
    assert effects(head).get(SHUFFLED, "") == effect
    assert says in conclusion(head)


def test_ranges_of_queries_explain_as_whole_rows_do(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neurons, causes, and what is kept of the heads that are asked for."""
    record, heads = _record(Pair("the cat sat on the mat .", "a cat ran on the mat")), [NOTHING, THREE]
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        whole = _explained(scanner, record.pair, heads)
        monkeypatch.setattr(tap, "_BLOCK", 1)
        ranges = _explained(scanner, record.pair, heads)
    assert_frame_equal(ranges.to_frame(), whole.to_frame(), atol=1e-4)
    assert whole.attention is not None and ranges.attention is not None
    assert_allclose(ranges.attention.weights, whole.attention.weights, atol=1e-6)
    assert whole.attention.weights.shape[:2] == (1, 2) and whole.attention.place(heads[1]) == (0, 1)


def test_no_pair_is_an_error(toy: str) -> None:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner, pytest.raises(InputError, match="no pair"):
        explain(scanner, [])


def test_a_model_without_segments_says_so(tmp_path: Path) -> None:
    for family in ("distilbert", "qwen3", "mpnet"):  # grouped keys in the second, and the third is watched
        settings = {**TAPPED, **UNTAPPED}[family]
        directory = tmp_path / family
        tiny_model(family, settings).save_pretrained(directory)
        toy_tokenizer().save_pretrained(directory)
        with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
            found = _explained(scanner, (Pair("the cat sat on the mat", "a cat ran")))
        assert "segments_swapped" in found.not_available and "positions_shuffled" not in found.not_available
        assert "neurons" not in found.not_available
        assert isinstance(found.attention, Attention) and found.attention.query is not None
        row = found.to_frame().iloc[0]
        assert not np.isnan(row["effective_neurons_rotated"]) and not np.isnan(row["stability_rotated_sd"])
        assert np.isnan(row["segments_zeroed"]) and not np.isnan(row["positions_shuffled"])


def test_a_head_that_follows_relative_positions_alone_goes_by_position(tmp_path: Path) -> None:
    """MPNet looks its relative positions up in a table: absolute ones, shuffled, do not reach this head."""
    model = tiny_model("mpnet", UNTAPPED["mpnet"])
    with torch.no_grad():
        for layer in model.encoder.layer:
            for projection in (layer.attention.attn.q, layer.attention.attn.k):
                torch.nn.init.zeros_(projection.weight)
        bias = model.encoder.relative_attention_bias.weight
        bias.zero_()[17, 0] = 40.0  # one to the right
    model.save_pretrained(tmp_path)
    toy_tokenizer().save_pretrained(tmp_path)
    model, pairs = str(tmp_path), [(pair.a, pair.b or "a dog ran") for pair in (LONG_AND_SHORT, Pair("i went to"))]
    for found in (
        attnscan.explain("0-0", *pairs[0], model=model, predictive="off"),
        attnscan.explain("0-0", pairs=pairs, model=model, predictive="off"),
    ):
        head = found["0-0"]
        assert head.score > 0.99 and head[SHUFFLED] < 0.3 and head.by == "by position"
        assert head.conclusion.startswith("0-0 follows next-word by position: ")
    why = attnscan.head("0-0", pairs=pairs, model=model)["0-0"].why
    assert why.by == "by position" and evidence(why).endswith("; segments cannot be changed in this model")


def test_of_what_cannot_be_changed_nothing_is_concluded(tmp_path: Path) -> None:
    """BLOOM is causal, and biased by distance."""
    tiny_model("bloom", UNTAPPED["bloom"]).save_pretrained(tmp_path)
    toy_tokenizer().save_pretrained(tmp_path)
    model = str(tmp_path)
    for found in (
        attnscan.explain("0-0", "the cat sat on the mat", model=model, predictive="off"),
        attnscan.explain("0-0", pairs=[("the cat sat on the mat",), ("a dog ran",)], model=model, predictive="off"),
    ):
        assert set(found.not_available) - {"neurons"} == {SHUFFLED, "segments_zeroed", "segments_swapped"}
        assert found["0-0"].by == "" and "content" not in found["0-0"].conclusion
    why = attnscan.head("0-0", pairs=["the cat sat on the mat", "a dog ran"], model=model)["0-0"].why
    assert evidence(why) == "positions and segments cannot be changed in this model"
    assert why.by == ""
