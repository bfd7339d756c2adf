"""What an examination says of checkpoints of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints_of_kinds import CASES, NO_DELIMITER, saved

from attnscan.results.checkpoint import Checkpoint
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies.checkpoint import examine

NO_MASK = "the model has no mask token"
NOT_LATER = "no token sees a later one, so no word is eligible"


def _examined(directory: Path) -> Checkpoint:
    with Scanner(ScanOptions(model=str(directory))) as scanner:
        return examine(scanner)


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
        ("delimiters at the end", {"read_by": "watch", "longest_input": None, "positions": "relative"}),
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
    assert "cls" not in found.not_measured and {"masked-lm", "next-sentence"} <= set(found.not_measured)


def test_a_trained_head_and_segments_that_are_heeded(shared: Path) -> None:
    found = _examined(shared / "models" / "minilm-l6-mlm")
    assert found.masked_lm_head and found.next_sentence_head and not found.classifier_head and found.segment_ids
    assert found.saved_as == "BertForPreTraining"
    assert found.not_measured == {"classifier": "the checkpoint has no trained classifier head"}
    assert (found.layers, found.heads, found.longest_input) == (6, 12, 512)


def test_heads_are_counted_by_what_runs(tmp_path: Path) -> None:
    """ConvBERT drops half of the heads in its config; the catalogue, which only reads that, cannot know."""
    assert _examined(saved(CASES["convolutions"], tmp_path)).heads == 2
