"""`attnscan head`: cards over pairs and of one input, in every form, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import run
from toy import save_toy_bert
from treebanks import planted_file


@pytest.fixture(scope="module")
def carrying(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A toy whose heads carry what they look at."""
    plan = {(0, 0): "next-word", (1, 1): "previous-word"}
    return str(save_toy_bert(tmp_path_factory.mktemp("toys") / "toy", 2, 3, plan, carries=True))


@pytest.fixture
def over(carrying: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"the cat {verb} on the mat,a dog {verb} to the store" for verb in ("sat", "ran", "went", "bought", "to", "on")
    ]
    Path("toy").symlink_to(carrying)
    monkeypatch.setenv("COLUMNS", "100")
    Path("p.csv").write_text("\n".join(["sentence_a,sentence_b", *rows]) + "\n")
    return "--model", "./toy", "--pairs", "p.csv"


def test_a_row_a_head_and_all_of_it_as_json(over: tuple[str, ...], tmp_path: Path) -> None:
    run("head", "0-0,1-1", *over, "-o", "cards.csv")
    assert pd.read_csv(tmp_path / "cards.csv")["among_words"].tolist()[0] == "next-word"
    document = json.loads(run("head", "0-0", *over, "--format", "json").stdout)
    assert document["heads"][0]["patterns"]["next-word"]["score"] == pytest.approx(1, abs=1e-3)
    assert document["signature"]["pairs_read"] == 6


def test_one_input_is_told_by_its_words(carrying: str) -> None:
    screen = run("head", "0-0", "the cat sat on the mat .", "a cat ran", "--model", carrying).stdout
    assert "the next word 1.00" in screen and "1 pair" in screen


def test_with_a_treebank_a_card_tells_the_heads_syntax(
    over: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = planted_file(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("head", "1-1", *over, "--treebank", trees, "--ablate").stdout.splitlines()
    screen = " ".join(" ".join(lines).split())
    assert len(lines) <= 45 and all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("treebank  ") and "Syntax: no relation beyond fixed rules." in screen
    assert "288 sentences" in screen and "relation right rule gain" in screen
    document = json.loads(run("head", "1-1", *over, "--treebank", trees, "--format", "json").stdout)
    (card,) = document["heads"]
    alone = json.loads(run("syntax", "--treebank", trees, *over[:2], "--heads", "1-1", "--format", "json").stdout)
    by_row = {(row["relation"], row["direction"]): row for row in alone["heads"]}
    assert len(card["syntax"]) == len(by_row) == 12
    assert all(row == by_row[row["relation"], row["direction"]] for row in card["syntax"])
    assert (card["uuas"], card["syntax_label"]) == (alone["heads"][0]["uuas"], None)
    assert document["treebank_signature"]["pairs_read"] == 288
