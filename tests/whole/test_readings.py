"""`--by` and `--special` through every command: what is scored, shown and drawn is of the rows that were asked for."""

from __future__ import annotations

from itertools import product
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
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The options of all: a random model that looks at some words more than at others."""
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "hidden_size": 32, "initializer_range": 0.5}
    model = save(tmp_path_factory.mktemp("readings") / "bert", BertForMaskedLM(BertConfig(**settings)))
    return {"model": str(model), "related": False}


@pytest.fixture(scope="module")
def among_words(asked: dict[str, Any]) -> dict[str, Any]:
    """Weights with special tokens removed and rows renormalised, by plain arithmetic, as saved weights hold them."""
    attention = attnscan.classify(A, B, predictive="off", **asked).kept_attention()
    is_word = np.array(attention.sentence) >= 0
    weights = attention.weights * is_word
    weights = weights / weights.sum(-1, keepdims=True)
    return {"attention": weights, "tokens": attention.tokens, "segments": attention.segments, "special": ~is_word}


def test_shown_weights_are_renormalised_over_words(asked: dict[str, Any], among_words: dict[str, Any]) -> None:
    shown = attnscan.show("1-0", A, B, model=asked["model"], special="out").to_frame()["weight"].to_numpy()
    assert_allclose(shown, among_words["attention"][1, 0].ravel(), atol=1e-6)


def test_a_profile_is_that_of_the_renormalised_rows(asked: dict[str, Any], among_words: dict[str, Any]) -> None:
    profile, whole = (attnscan.profile(A, B, special=special, **asked).share for special in ("out", "in"))
    words = len(WORD_CLASSES)
    assert_allclose(profile[..., :words], attnscan.profile(weights=among_words).share[..., :words], atol=1e-4)
    assert_allclose(profile[..., words:], whole[..., words:], atol=1e-6)


def test_divergences_are_of_the_renormalised_rows(asked: dict[str, Any], among_words: dict[str, Any]) -> None:
    found = attnscan.similar([(A, B)], model=asked["model"], special="out", queries=100)
    is_word = ~np.asarray(among_words["special"])
    rows = among_words["attention"][..., is_word, :][..., is_word].reshape(-1, is_word.sum(), is_word.sum())

    def entropy(p: np.ndarray) -> np.ndarray:
        return -(p * np.log(p)).sum(-1)

    for (i, one), (j, other) in product(enumerate(rows), repeat=2):
        expected = (entropy((one + other) / 2) - (entropy(one) + entropy(other)) / 2).mean()
        assert found.divergence[i, j] == pytest.approx(expected, abs=1e-5)


def test_a_comparison_and_a_ranking_have_the_scores_among_words(asked: dict[str, Any]) -> None:
    ranking = attnscan.heads(PAIRS, predictive="off", **asked)
    words = ranking.scores.words_only.score
    assert_allclose(ranking.table.score, words, atol=1e-6)
    compared = attnscan.compare(asked["model"], asked["model"], PAIRS, related=False, special="out")
    for labels in compared.of_models:
        places = [ranking.scores.patterns.index(name) for name in compared.patterns]
        assert_allclose(labels.table.score, words[..., places])
        assert (labels.label == ranking.label).all()
    assert (attnscan.similar(PAIRS, **asked).labels.label == ranking.label).all()


@pytest.mark.parametrize(("by", "special"), product(("weight", "carried"), ("out", "in")))
def test_labels_are_of_the_reading(asked: dict[str, Any], by: Any, special: Any) -> None:
    options: dict[str, Any] = {"predictive": "off", "by": by, "special": special, **asked}
    one, many = attnscan.classify(A, B, **options), attnscan.heads(PAIRS, **options)
    for result in (one, many):
        assert result.reading == result.labels.reading == Reading(by, special)
        assert ("delimiter" in result.labels.statements.names) is (special == "in")
        assert (result.to_frame()["label"] == result.label.ravel()).all()
    parts = [attnscan.shard(PAIRS[i : i + 2], **options) for i in (0, 2)]
    whole = attnscan.finish(parts[0] + parts[1]).labels.statements
    assert_allclose(whole.share, many.labels.statements.share, atol=1e-9)


def test_statements_by_weight_are_those_of_saved_weights(asked: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "weights.npz"
    found = attnscan.classify(A, B, by="weight", save_weights=file, predictive="off", **asked)
    ours, theirs = found.labels.statements, attnscan.classify(weights=file).labels.statements
    frequent = [ours.names.index(name) for name in ("frequent-words", "rare-words")]  # a file has no model
    known = np.delete(np.arange(len(ours.names)), frequent)
    assert_allclose(theirs.share[..., known], ours.share[..., known], atol=1e-6)


def test_a_state_of_another_reading_is_refused(asked: dict[str, Any], tmp_path: Path) -> None:
    pairs, state = tmp_path / "pairs.txt", str(tmp_path / "state")
    pairs.write_text(f"{A}\n{B}\n")
    options = ["heads", "--model", asked["model"], "--pairs", str(pairs), "--predictive", "off", "--state", state]
    run(*options)
    refused = CliRunner().invoke(app, [*options, "--special", "in"])
    assert refused.exit_code == 1 and "its special is out, and here it is in" in refused.stderr
