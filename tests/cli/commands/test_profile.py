"""`attnscan profile`, by what it prints."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import A, B, misuse, run

from attnscan.results.scores import SPECIAL_CLASSES, WORD_CLASSES

ONE = ("profile", A, B, "--model", "bundled")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    sentences = ["The cat sat on the mat.", "A dog ran to the store.", "I went home, and you did not."]
    rows = [f"{a}\t{b}" for a in sentences for b in sentences]
    path.write_text("sentence_a\tsentence_b\n" + "\n".join(rows) + "\n")
    return path


def _table(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run(*arguments, "--csv").stdout))


def test_a_line_for_every_head_with_its_largest_classes() -> None:
    lines = run(*ONE).stdout.splitlines()
    assert sum(re.match(r"\d+-\d+ ", line) is not None for line in lines) == 72
    (line,) = (line for line in lines if line.startswith("0-2 "))
    assert re.match(r"0-2 +previous 0\.8\d .*\| special tokens 0\.\d\d", line)


def test_one_head_in_full(pairs: Path) -> None:
    screen = run("profile", "--pairs", str(pairs), "--model", "bundled", "--heads", "1-8").stdout
    rows = [line.split()[0] for line in screen.splitlines() if re.match(r"[a-z0-9-]+ +[01]\.\d{3} ", line)]
    assert rows == [*WORD_CLASSES, *SPECIAL_CLASSES]
    several = run("profile", "--pairs", str(pairs), "--model", "bundled", "--heads", "1-4,0-2").stdout
    assert len(re.findall(r"^\d-\d ", several, re.MULTILINE)) == 2


def test_csv_has_a_row_for_each_class_of_each_head(pairs: Path) -> None:
    table = _table("profile", "--pairs", str(pairs), "--model", "bundled")
    assert table.columns.tolist() == ["model", "layer", "head", "name", "class", "share", "se", "chance", "average"]
    assert table["class"].tolist() == [*WORD_CLASSES, *SPECIAL_CLASSES] * 72
    assert table["name"].iloc[0] == "L0H0" and table["se"].notna().all()
    words = table[~table["class"].isin(SPECIAL_CLASSES)].groupby("name")
    assert np.allclose(words["share"].sum(), 1, atol=2e-5) and np.allclose(words["chance"].sum(), 1, atol=2e-5)
    means = table.groupby("class")["share"].mean()
    assert np.allclose(table["average"], table["class"].map(means), atol=2e-6)
    largest = table.sort_values("share").groupby("name").tail(1).set_index("name")["class"]
    assert (largest["L0H2"], largest["L1H8"]) == ("previous", "next")


def test_of_one_input_there_is_no_error() -> None:
    table = _table(*ONE, "--heads", "0-2", "--top", "2")
    assert len(table) == 2 and table["se"].isna().all()
    assert table["class"].tolist()[0] == "previous"


def test_a_pattern_of_ones_own_stands_beside_the_classes(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def two_back(batch):\n    return (batch.offset == -2) & batch.same_sentence\n")
    table = _table(*ONE, "--pattern", f"{path}:two_back", "--heads", "0-2").set_index("class")["share"]
    assert table.index.tolist() == [*WORD_CLASSES, "two-back", *SPECIAL_CLASSES]
    assert table[list(WORD_CLASSES)].sum() == pytest.approx(1, abs=2e-5) and 0 < table["two-back"] < 1
    assert "is for patterns of your own" in misuse(*ONE, "--pattern", "next-word")


def test_saved_weights_have_shares(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    run("classify", A, B, "--model", "bundled", "--predictive", "off", "--save-weights", str(path), "--csv")
    saved, plain = _table("profile", "--weights", str(path)), _table(*ONE, "--no-related")
    pd.testing.assert_frame_equal(saved.drop(columns="model"), plain.drop(columns="model"), atol=2e-6)
