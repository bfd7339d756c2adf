"""`--by` and `--special` through every command: what is scored, shown and drawn is of the rows that were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import run
from numpy.testing import assert_allclose
from tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertForMaskedLM
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.results.behaviour import WORD_CLASSES
from attnscan.results.signature import Reading

A, B = "the cat sat on the mat .", "the cat sat ."
PAIRS = [(A, B), (B, A), (A, A), (B, "the mat sat on the cat .")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "hidden_size": 32, "initializer_range": 0.5}
    return str(save(tmp_path_factory.mktemp("readings") / "bert", BertForMaskedLM(BertConfig(**settings))))


@pytest.fixture(scope="module")
def among_words(model: str) -> dict[str, Any]:
    """Weights with special tokens removed and rows renormalised, by plain arithmetic, as saved weights hold them."""
    attention = attnscan.classify(A, B, model=model, predictive="off", related=False).kept_attention()
    is_word = np.array(attention.sentence) >= 0
    weights = attention.weights * is_word
    weights = weights / weights.sum(-1, keepdims=True)
    return {"attention": weights, "tokens": attention.tokens, "segments": attention.segments, "special": ~is_word}


def test_shown_weights_are_renormalised_over_words(model: str, among_words: dict[str, Any]) -> None:
    shown = attnscan.show("1-0", A, B, model=model, special="out").to_frame()
    length = len(among_words["tokens"])
    assert_allclose(shown["weight"].to_numpy().reshape(length, length), among_words["attention"][1, 0], atol=1e-6)


def test_a_profile_is_that_of_the_renormalised_rows(model: str, among_words: dict[str, Any]) -> None:
    profile = attnscan.profile(A, B, model=model, special="out", related=False)
    expected = attnscan.profile(weights=among_words)
    words = len(WORD_CLASSES)
    assert_allclose(profile.share[..., :words], expected.share[..., :words], atol=1e-4)
    whole = attnscan.profile(A, B, model=model, special="in", related=False)
    assert_allclose(profile.share[..., words:], whole.share[..., words:], atol=1e-6)


def test_divergences_are_of_the_renormalised_rows(model: str, among_words: dict[str, Any]) -> None:
    found = attnscan.similar([(A, B)], model=model, special="out", queries=100)
    is_word = ~np.asarray(among_words["special"])
    rows = among_words["attention"][..., is_word, :][..., is_word].reshape(-1, is_word.sum(), is_word.sum())

    def entropy(p: np.ndarray) -> np.ndarray:
        return -(p * np.log(p)).sum(-1)

    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            expected = (entropy((one + other) / 2) - (entropy(one) + entropy(other)) / 2).mean()
            assert found.divergence[i, j] == pytest.approx(expected, abs=1e-5)


def test_a_comparison_and_a_ranking_have_the_scores_among_words(model: str) -> None:
    ranking = attnscan.heads(PAIRS, model=model, predictive="off", related=False)
    words = ranking.scores.words_only.score
    asked = attnscan.heads(PAIRS, model=model, predictive="off", related=False, special="out")
    assert_allclose(asked.table.score, words, atol=1e-6)
    assert (asked.label == ranking.label).all()
    compared = attnscan.compare(model, model, PAIRS, related=False, special="out")
    for labels in compared.of_models:
        places = [ranking.scores.patterns.index(name) for name in compared.patterns]
        assert_allclose(labels.table.score, words[..., places])
    label = compared.of_models[0].label
    assert (label == attnscan.similar(PAIRS, model=model, related=False).labels.label).all()
    assert (label == ranking.label).all()


@pytest.mark.parametrize(
    ("asked", "reading"),
    [
        ({}, Reading("weight", "out")),
        ({"by": "carried"}, Reading("carried", "out")),
        ({"special": "in"}, Reading("weight", "in")),
        ({"by": "carried", "special": "in"}, Reading("carried", "in")),
    ],
)
def test_labels_are_of_the_reading(model: str, asked: dict[str, Any], reading: Reading) -> None:
    options: dict[str, Any] = {"model": model, "predictive": "off", "related": False, **asked}
    one, many = attnscan.classify(A, B, **options), attnscan.heads(PAIRS, **options)
    for result in (one, many):
        assert result.labels is not None and result.labels.statements is not None
        assert result.reading == result.labels.reading == reading
        assert ("delimiter" in result.labels.statements.names) is (reading.special == "in")
        assert (result.to_frame()["label"] == result.label.ravel()).all()
    parts = [attnscan.shard(PAIRS[i : i + 2], **options) for i in (0, 2)]
    whole = attnscan.finish(parts[0] + parts[1]).labels.statements
    statements = many.labels.statements
    assert whole is not None and statements is not None
    assert_allclose(whole.share, statements.share, atol=1e-9)


def test_statements_by_weight_are_those_of_saved_weights(model: str, tmp_path: Path) -> None:
    file, options = tmp_path / "weights.npz", {"model": model, "predictive": "off", "related": False}
    found = attnscan.classify(A, B, by="weight", save_weights=file, **options)  # type: ignore[arg-type]
    again = attnscan.classify(weights=file)
    ours, theirs = found.labels.statements, again.labels.statements
    assert ours is not None and theirs is not None
    frequent = [ours.names.index(name) for name in ("frequent-words", "rare-words")]  # a file has no model
    known = np.delete(np.arange(len(ours.names)), frequent)
    assert_allclose(theirs.share[..., known], ours.share[..., known], atol=1e-6)


def test_a_state_of_another_reading_is_refused(model: str, tmp_path: Path) -> None:
    pairs, state = tmp_path / "pairs.txt", str(tmp_path / "state")
    pairs.write_text(f"{A}\n{B}\n")
    options = ["heads", "--model", model, "--pairs", str(pairs), "--predictive", "off", "--state", state]
    run(*options)
    refused = CliRunner().invoke(app, [*options, "--special", "in"])
    assert refused.exit_code == 1 and "its special is out, and here it is in" in refused.stderr
