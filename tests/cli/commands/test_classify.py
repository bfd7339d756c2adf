"""`attnscan classify`, by what it prints."""

from __future__ import annotations

import json
import re
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import COLUMNS, A, B, classify, run
from toy import save_toy_bert

from attnscan.results.scores import HABITS
from attnscan.scoring.patterns import PATTERNS

UNLABELLED = {"label": {"": np.nan}, "among_words": {"": np.nan}}
"""What pandas makes of an empty cell."""


def test_csv_is_the_contracts_to_the_letter() -> None:
    lines = classify("--csv").stdout.splitlines()
    assert lines[0] == COLUMNS
    assert len(lines) == 1 + 72
    first = lines[1].split(",")
    assert first[:3] == ["bundled", "0", "0"]
    _, _, _, name, label, stays, among_words, share, average, *numbers = first
    assert name == "L0H0" and all(
        re.fullmatch(r"\d+\.\d{6}", cell) for cell in (stays, share, average, *numbers) if cell
    )
    known = {*HABITS, *(pattern.id for pattern in PATTERNS), ""}
    assert {label, among_words} <= known
    without = classify("--csv", "--predictive", "off").stdout.splitlines()
    assert without[1].split(",")[COLUMNS.split(",").index("predictive")] == ""  # not measured


@pytest.mark.usefixtures("each_run_once")
@pytest.mark.parametrize("format", ["tsv", "json", "jsonl", "markdown", "parquet"])
def test_every_format_carries_the_same_table(format: str, toy: str, tmp_path: Path) -> None:
    path = tmp_path / f"heads.{format.replace('markdown', 'md')}"
    on_toy = ("classify", "the cat sat", "a cat", "--model", toy)
    expected = pd.read_csv(StringIO(run(*on_toy, "--csv").stdout))
    assert run(*on_toy, "-o", str(path)).stdout == ""
    content = path.read_bytes()
    if format == "parquet":
        found = pd.read_parquet(BytesIO(content)).round(6).replace(UNLABELLED)
    elif format == "json":
        found = pd.read_json(StringIO(json.dumps(json.loads(content)["heads"]))).replace(UNLABELLED)
    elif format == "jsonl":
        found = pd.read_json(BytesIO(content), lines=True).replace(UNLABELLED)
    elif format == "markdown":
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in StringIO(content.decode())]
        found = pd.read_csv(StringIO("\n".join(",".join(row) for row in [rows[0], *rows[2:]])))
    else:
        found = pd.read_csv(BytesIO(content), sep="\t")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, atol=1e-6)
    if format != "parquet":
        assert run(*on_toy, "--format", format).stdout == content.decode()


def test_json_carries_the_signature_and_the_tokens() -> None:
    data = json.loads(classify("--format", "json").stdout)
    assert data["signature"]["model"] == "bundled" and data["signature"]["device"] == "cpu"
    assert data["units"][:3] == ["[CLS]", "i", "went"]
    assert data["not_measured"] == {} and "130 hidden sequences" in data["notes"][0]


def test_chosen_patterns_rank_the_rows_and_top_cuts_them() -> None:
    quick = ("--csv", "--predictive", "off")
    table = pd.read_csv(StringIO(classify(*quick, "--pattern", "delimiter", "-p", "next-word", "--top", "5").stdout))
    assert table.columns[9:].tolist() == ["delimiter", "next-word", "entropy"]
    assert len(table) == 5 and table["delimiter"].is_monotonic_decreasing
    whole = pd.read_csv(StringIO(classify(*quick).stdout))
    assert table["delimiter"].max() == whole["delimiter"].max()


def test_saved_weights_come_back_as_the_same_table(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    options = ("--csv", "--no-related", "--predictive", "off", "--save-weights", str(path))
    before = pd.read_csv(StringIO(classify(*options).stdout))
    with np.load(path) as arrays:
        assert sorted(arrays) == ["attention", "segments", "special", "tokens"]
        assert arrays["attention"].shape == (6, 12, 19, 19)
    after = pd.read_csv(StringIO(run("classify", "--weights", str(path), "--csv").stdout))
    assert set(after["model"]) == {"weights.npz"}
    # habits tell frequent words, which a file without a model does not know, and so average heads differ
    scores = ["layer", "head", "name", *(pattern.id for pattern in PATTERNS), "entropy"]
    pd.testing.assert_frame_equal(before[scores], after[scores], atol=2e-6)
    follow = before["among_words"].isin([pattern.id for pattern in PATTERNS])
    assert before["among_words"][follow].tolist() == after["among_words"][follow].tolist()


def test_heads_without_a_score_come_last_and_are_not_what_to_try_next(tmp_path: Path) -> None:
    save_toy_bert(tmp_path, 1, 3, {(0, 1): "previous-word"})
    one = ("classify", "cat sat on mat", "--model", str(tmp_path))
    table = pd.read_csv(StringIO(run(*one, "-p", "cross-sentence", "-p", "previous-word", "--csv").stdout))
    assert table["head"][0] == 1 and table["previous-word"].is_monotonic_decreasing
    assert pd.read_csv(StringIO(run(*one, "-p", "cross-sentence", "--csv").stdout))["head"].tolist() == [0, 1, 2]
    assert run(*one, "-p", "cross-sentence", "--top", "2", "--csv").stdout.count("\n") == 1
    screen = run(*one, "-p", "cross-sentence").stdout
    assert "cross-sentence: no word of this input is eligible" in screen and "Next:" not in screen


def test_the_default_model_without_a_hub_is_the_bundled_one_and_says_so() -> None:
    result = run("classify", A, B, "--csv", "--predictive", "off")
    assert result.stderr.count("\n") == 1 and "using the bundled all-MiniLM-L6-v2" in result.stderr
    assert result.stdout == classify("--csv", "--predictive", "off").stdout
