"""What `models CHECKPOINT` says of checkpoints of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from families import REFUSED, tiny_model
from test_end_to_end import CASES, saved
from tokenizers_of_kinds import wordpiece
from typer.testing import CliRunner, Result

from attnscan.checkpoint import Checkpoint, examine
from attnscan.cli import app
from attnscan.options import ScanOptions
from attnscan.patterns import PATTERNS
from attnscan.sources import choose

IDS = [pattern.id for pattern in PATTERNS]
NO_MASK = "the model has no mask token"
NO_DELIMITER = "the tokenizer inserts no special tokens"
NOT_LATER = "no token sees a later one, so it is always 0"


def _examined(directory: Path) -> Checkpoint:
    return examine(ScanOptions(model=str(directory)), choose(str(directory)))


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "bert",
            {
                "family": "bert",
                "architecture": "BertModel",
                "read_by": "tap",
                "longest_input": 64,
                "positions": "absolute",
                "segment_ids": False,  # this tokenizer gives none
                "mask_token": "[MASK]",
                "not_scored": {},
            },
        ),
        ("two delimiters between", {"family": "roberta", "longest_input": 63, "positions": "absolute"}),
        ("delimiters at the end", {"read_by": "output_attentions", "longest_input": None, "positions": "relative"}),
        ("a window", {"positions": "rotary", "longest_input": 64}),
        ("an encoder with its decoder", {"architecture": "BartEncoder", "read_by": "tap", "longest_input": 64}),
        ("a position bias", {"architecture": "T5Stack", "positions": "relative", "longest_input": None}),
        (
            "decoder without delimiters",
            {
                "mask_token": None,
                "not_scored": {"next-word": NOT_LATER, "predictive": NO_MASK, "delimiter": NO_DELIMITER},
            },
        ),
        ("decoder with grouped keys", {"heads": 4, "positions": "rotary", "not_scored": {"next-word": NOT_LATER}}),
    ],
)
def test_facts(tmp_path: Path, name: str, facts: dict[str, Any]) -> None:
    case = CASES[name]
    found = _examined(saved(case, tmp_path))
    assert {key: getattr(found, key) for key in facts} == facts
    assert (found.layers, found.heads, found.template) == (3, 4, case.template)
    assert found.masked_lm_head is False


def test_a_trained_head_and_segments_that_are_heeded(shared: Path) -> None:
    found = _examined(shared / "models" / "minilm-l6-mlm")
    assert found.masked_lm_head and found.segment_ids
    assert (found.layers, found.heads, found.longest_input) == (6, 12, 512)


def test_heads_are_counted_by_what_runs(tmp_path: Path) -> None:
    """ConvBERT drops half of the heads in its config; the catalogue, which only reads that, cannot know."""
    assert _examined(saved(CASES["convolutions"], tmp_path)).heads == 2


# The command line


def _run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["models", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_the_screen_says_which_patterns_cannot_be_scored(tmp_path: Path) -> None:
    lines = _run(str(saved(CASES["decoder without delimiters"], tmp_path))).stdout.splitlines()
    assert "family          gpt2 (GPT2Model)" in lines
    assert "heads           3 × 4 = 12" in lines
    assert "template        A B" in lines
    assert f"D delimiter       no: {NO_DELIMITER}" in lines
    assert "P previous-word   yes" in lines
    assert all(len(line) <= 80 for line in lines if "/" not in line)


def test_csv_is_a_row_for_each_fact_and_pattern() -> None:
    rows = dict(line.split(",", 1) for line in _run("bundled", "--csv").stdout.splitlines())
    assert rows["key"] == "value"
    assert (rows["family"], rows["layers"], rows["heads"]) == ("bert", "6", "12")
    assert (rows["segment_ids"], rows["masked_lm_head"], rows["mask_token"]) == ("yes", "no", "[MASK]")
    assert [rows[pattern] for pattern in IDS] == ["yes"] * 7


def test_json_is_one_object() -> None:
    found = json.loads(_run("bundled", "--format", "json").stdout)
    assert (found["model"], found["layers"], found["segment_ids"]) == ("bundled", 6, True)
    assert [(row["pattern"], row["scored"]) for row in found["rows"]] == [(pattern, True) for pattern in IDS]


@pytest.mark.parametrize("family", ["fnet", "squeezebert", "canine"])
def test_one_without_attention_is_refused_in_one_line(tmp_path: Path, family: str) -> None:
    settings = {**REFUSED[family][0], **({} if family == "canine" else {"vocab_size": 100})}
    tiny_model(family, settings).save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    (line,) = _run(str(tmp_path), code=1).stderr.splitlines()
    assert line.startswith("attnscan: the architecture")


def test_one_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    (line,) = _run(str(tmp_path / "missing"), code=1).stderr.splitlines()
    assert "there is no directory" in line
