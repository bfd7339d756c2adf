"""`attnscan models`: what can run, and what is said of checkpoints of every kind."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from checkpoints_of_kinds import CASES, NO_DELIMITER, saved
from command_line import run
from families import REFUSED, tiny_model
from tokenizers_of_kinds import wordpiece
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.scoring.patterns import PATTERNS


def test_models_lists_what_can_run() -> None:
    text = run("models").stdout
    assert re.search(r"bundled +bert +6 × 12 +ready", text)
    table = pd.read_csv(StringIO(run("models", "--csv").stdout))
    assert table.loc[table["model"] == "bundled", ["layers", "heads"]].to_numpy().tolist() == [[6, 12]]


IDS = [pattern.id for pattern in PATTERNS]


def _run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["models", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_the_screen_says_which_patterns_cannot_be_scored(tmp_path: Path) -> None:
    lines = _run(str(saved(CASES["decoder without delimiters"], tmp_path))).stdout.splitlines()
    assert "family         gpt2 (GPT2Model)" in lines
    assert "heads          3 × 4 = 12" in lines
    assert "template       A B" in lines
    assert "task heads     none trained" in lines
    assert "next-sentence  no: a gpt2 model has no next-sentence head" in lines
    assert f"D delimiter        no: {NO_DELIMITER}" in lines
    assert "P previous-word    yes" in lines and "J induction        yes" in lines
    assert all(len(line) <= 80 for line in lines if "/" not in line)


def test_csv_is_a_row_for_each_fact_and_pattern() -> None:
    rows = dict(line.split(",", 1) for line in _run("bundled", "--csv").stdout.splitlines())
    assert rows["key"] == "value"
    assert (rows["family"], rows["layers"], rows["heads"]) == ("bert", "6", "12")
    assert (rows["segment_ids"], rows["masked_lm_head"], rows["mask_token"]) == ("yes", "no", "[MASK]")
    assert [rows[pattern] for pattern in IDS] == ["yes"] * 7
    assert (rows["next_sentence_head"], rows["classifier_head"], rows["cls"]) == ("no", "no", "yes")
    assert rows["masked-lm"] == "no: the checkpoint has no trained masked-LM head"


def test_the_screen_lists_task_heads_and_the_measures_that_they_allow(shared: Path) -> None:
    lines = _run(str(shared / "models" / "minilm-l6-mlm")).stdout.splitlines()
    assert "task heads     masked-LM, next-sentence" in lines
    at = lines.index("measures of attnscan ablate")
    assert lines[at + 1 : at + 5] == [
        "masked-lm      yes",
        "next-sentence  yes",
        "classifier     no: the checkpoint has no trained classifier head",
        "cls            yes",
    ]


@pytest.mark.parametrize("family", ["fnet", "gpt_oss", "canine"])
def test_one_without_attention_is_refused_in_one_line(tmp_path: Path, family: str) -> None:
    settings = {**REFUSED[family][0], **({} if family == "canine" else {"vocab_size": 100})}
    tiny_model(family, settings).save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    (line,) = _run(str(tmp_path), code=1).stderr.splitlines()
    assert line.startswith("attnscan: the architecture")
