"""`attnscan heads`: rankings, bad records, a state, and an interrupt."""

from __future__ import annotations

import json
import re
from io import StringIO
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import COLUMNS, run
from toy import save_toy_bert
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.inputs.read import shipped_pairs
from attnscan.scoring.patterns import PATTERNS


def test_heads_ranks_the_pairs_that_come_along() -> None:
    result = run("heads", "--model", "bundled", "--pattern", "previous-word", "-p", "next-word", "--csv")
    table = pd.read_csv(StringIO(result.stdout))
    columns = "model,pattern,rank,layer,head,name,score,chance,above_chance,se,low,high,n,pairs"
    assert result.stdout.splitlines()[0] == columns
    assert len(table) == 2 * 72 and table["pairs"].min() > 80
    best = table.groupby("pattern").first()
    assert best.loc["previous-word", ["layer", "head"]].tolist() == [0, 2]
    assert best.loc["next-word", ["layer", "head"]].tolist() == [1, 8]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of the pairs that ship with attnscan."""
    first = [*islice(shipped_pairs(), 12)]
    monkeypatch.setattr("attnscan.inputs.read.shipped_pairs", lambda: iter(first))


@pytest.mark.usefixtures("few")
def test_a_list_of_the_best_heads_is_as_long_as_asked_for() -> None:
    text = run("heads", "--model", "bundled", "--pattern", "next-word", "--top", "3").stdout
    assert len(re.findall(r"^\d+-\d+ ", text, re.MULTILINE)) == 3 and "3 of 72 heads; --top 72 for all." in text


@pytest.mark.usefixtures("few", "each_run_once")
def test_what_heads_do_is_a_screen_and_a_row_a_head_with_labels() -> None:
    quick = ("heads", "--model", "bundled", "--predictive", "off")
    text = run(*quick).stdout
    assert re.search(r"^back +P the previous word +\d+ +0\.\d\d  0-2 1\.00 ", text, re.MULTILINE)
    assert text.startswith("12 pairs that ship with attnscan · bundled, 6 layers × 12 heads\n") and "95 %" not in text
    assert len(text.splitlines()) <= 34 and "Next: attnscan head 1-8" in text
    lists = run(*quick, "--best").stdout
    assert "95 % interval" in lists and "5 of 72 heads; --top 72 for all." in lists and "layers down" not in lists
    written = run(*quick, "--csv").stdout
    table, ids = pd.read_csv(StringIO(written)), [pattern.id for pattern in PATTERNS]
    assert written.splitlines()[0] == COLUMNS and len(table) == 72
    assert table["label_stays"].min() >= 0 and table["label_stays"].max() == 1
    assert table.loc[2, ["label", "among_words", "label_stays"]].tolist() == ["previous-word", "previous-word", 1]
    long = pd.read_csv(StringIO(run(*quick, "--best", "--csv").stdout))
    long = long.pivot(index=["layer", "head"], columns="pattern")
    np.testing.assert_array_equal(table[ids].to_numpy(), long["score"][ids].to_numpy())
    strict = pd.read_csv(StringIO(run(*quick, "--csv", "--threshold", "0.9").stdout))
    assert strict["among_words"].isin(ids).sum() < table["among_words"].isin(ids).sum()


def test_without_a_score_there_is_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_toy_bert(tmp_path / "toy", 1, 3, {(0, 1): "previous-word"})
    (tmp_path / "one.csv").write_text("text\ncat sat on mat\ndog ran to store\n")
    part = ("heads", "--model", "./toy", "--pairs", "one.csv", "--predictive", "off", "-p", "cross-sentence")
    screen = run(*part).stdout
    assert "no word of these pairs is eligible" in screen and "Next:" not in screen
    rows = json.loads(run(*part, "--format", "json").stdout)["heads"]
    assert [(row["rank"], row["head"], row["score"]) for row in rows] == [(None, head, None) for head in range(3)]
    assert run(*part, "--top", "2", "--csv").stdout.count("\n") == 1
    # The first pattern has no scores, and 0-0 is not the best by the second
    assert "Next: attnscan head 0-1" in run(*part, "-p", "P").stdout


PAIRS_CSV = "sentence_a,sentence_b\nthe cat sat on the mat,a cat ran\nhe ran to a store,the store was red\n"


@pytest.mark.usefixtures("few")
def test_of_how_many_words_predictive_was_measured_is_told() -> None:
    asked = ("--predictive-pairs", "3", "--predictive-words", "4")
    result = run("heads", "--model", "bundled", "--no-related", "-p", "predictive", *asked, "--csv")
    assert re.search(r"predictive was measured on \d+ words of 3 pairs; --predictive-pairs N asks", result.stderr)
    none = run("heads", "--model", "bundled", "--no-related", "--csv")  # so few pairs pay for none of theirs
    assert "predictive was not measured: asking about a pair takes longer than all else" in none.stderr


def test_heads_from_standard_input_and_with_bad_records(toy: str) -> None:
    options = ["heads", "--model", toy, "-p", "next-word", "--csv", "--pairs", "-"]
    good = CliRunner().invoke(app, options, input=PAIRS_CSV)
    assert good.exit_code == 0, good.output
    bad = PAIRS_CSV.replace("he ran", '"",b\nhe ran')
    stopped = CliRunner().invoke(app, options, input=bad)
    assert stopped.exit_code == 1 and stopped.stdout == "" and ":3" in stopped.stderr
    skipped = CliRunner().invoke(app, [*options, "--skip-bad"], input=bad)
    assert skipped.stdout == good.stdout
    assert "1 bad record was skipped" in skipped.stderr
