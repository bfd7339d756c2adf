"""Statements on constructed checkpoints: planted heads are stated, and heads that are all alike are not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy import ARTICLES, NOUNS, VERBS, Plan, save_toy_bert
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app

PLANTED: Plan = {
    (0, 1): "next three",
    (1, 0): "punctuation",
    (2, 2): "first two",
    (3, 3): "next-word",
    (3, 0): "previous-word",
    (1, 2): "identical",
}
STATED = {(0, 1): "next-3", (1, 0): "punctuation", (2, 2): "same-keys", (3, 3): "next-word", (3, 0): "previous-word"}
LAYERS, HEADS = 4, 4


def _sentence(rng: random.Random) -> str:
    clauses = [
        " ".join([rng.choice(ARTICLES), rng.choice(NOUNS), rng.choice(VERBS), "to", rng.choice(NOUNS)])
        for _ in range(rng.randint(1, 2))
    ]
    return " , ".join(clauses) + " ."


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, file = random.Random(0), tmp_path_factory.mktemp("pairs") / "pairs.csv"
    rows = [f'"{_sentence(rng)}","{_sentence(rng)}"' for _ in range(40)]
    file.write_text("\n".join(["sentence_a,sentence_b", *rows]))
    return file


def _table(directory: Path, target: Path, *words: str) -> pd.DataFrame:
    arguments = [*words, "--model", str(directory), "--predictive", "off", "-o", str(target)]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, outcome.output
    return pd.read_csv(target).set_index(["layer", "head"])


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("planted"), LAYERS, HEADS, PLANTED, carries=True)


def _habits(labels: attnscan.Labels) -> dict[tuple[int, ...], str]:
    """Each head's habit, also where it follows a pattern."""
    assert labels.statements is not None
    names = (*labels.statements.names, "")
    return {place: names[winner] for place, winner in np.ndenumerate(labels.statements.winner)}


def test_planted_heads_have_their_habits_over_pairs(planted: Path, pairs: Path, tmp_path: Path) -> None:
    labels = attnscan.heads(str(pairs), model=str(planted), predictive="off").labels
    habits, statements = _habits(labels), labels.statements
    assert statements is not None and {head: habits[head] for head in STATED} == STATED
    assert all(statements.share[(*head, statements.names.index(name))] > 0.6 for head, name in STATED.items())
    table = _table(planted, tmp_path / "heads.csv", "heads", "--pairs", str(pairs))
    even = [head for head in table.index if head not in PLANTED]
    assert set(table.loc[even, "among_words"]) == {"even"} and (table.loc[even, "share"] > 0.999).all()


def test_planted_heads_have_their_habits_on_one_input(planted: Path) -> None:
    sentences = "the cat sat on the mat , and ran .", "a dog went to the store , i bought strawberries ."
    habits = _habits(attnscan.classify(*sentences, model=str(planted), predictive="off").labels)
    expected = {**STATED, (2, 2): "frequent-words"}  # which the first two words of this input are
    assert {head: habits[head] for head in STATED} == expected


def test_heads_that_are_all_alike_have_no_statement(pairs: Path, tmp_path: Path) -> None:
    every_head: Plan = {(layer, head): "next-word" for layer in range(2) for head in range(4)}
    directory = save_toy_bert(tmp_path / "alike", 2, 4, every_head, carries=True)
    table = _table(directory, tmp_path / "heads.csv", "heads", "--pairs", str(pairs))
    assert set(table["among_words"]) == {"next-word"} and table["share"].min() > 0.99  # a pattern, which no habit is


def test_an_untrained_model_has_no_statement(pairs: Path, tmp_path: Path, untrained: Path) -> None:
    table = _table(untrained, tmp_path / "heads.csv", "heads", "--pairs", str(pairs))
    assert table["among_words"].isna().all() and table["share"].isna().all()


@pytest.fixture
def untrained(tmp_path: Path, planted: Path) -> Path:
    """A BERT of the bundled model's shape with random weights, which reads the toy's words."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(planted)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    BertModel(config).save_pretrained(tmp_path / "untrained")
    tokenizer.save_pretrained(tmp_path / "untrained")
    return tmp_path / "untrained"
