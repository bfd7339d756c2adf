"""What an examination says of checkpoints of every kind."""

from pathlib import Path
from typing import Any

import pytest
from support.checkpoints_of_kinds import CASES, NO_DELIMITER, saved

from attnscan.results.card import Checkpoint
from attnscan.results.choices import MEASURES
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.studies.checkpoint import examine

NO_MASK = "the model has no mask token"
NOT_LATER = "no token sees a later one, so no word is eligible"


def _examined(directory: Path) -> Checkpoint:
    with open_scanner(ScanOptions(model=str(directory))) as scanner:
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
                "segment_ids": False,  # this tokenizer gives none
                "mask_token": "[MASK]",
            },
        ),
        ("two delimiters between", {"family": "roberta", "longest_input": 63}),
        ("delimiters at the end", {"read_by": "watch", "longest_input": None}),
        ("a window", {"longest_input": 64}),
        (
            "an encoder with its decoder",
            {"architecture": "BartEncoder", "read_by": "tap", "longest_input": 64},
        ),
        ("a position bias", {"architecture": "T5Stack", "longest_input": None}),
        (
            "decoder without delimiters",
            {
                "mask_token": None,
                "not_scored": {
                    "next-word": NOT_LATER,
                    "predictive": NO_MASK,
                    "delimiter": NO_DELIMITER,
                },
            },
        ),
        ("decoder with grouped keys", {"heads": 4, "not_scored": {"next-word": NOT_LATER}}),
    ],
)
def test_facts(tmp_path: Path, name: str, facts: dict[str, Any]) -> None:
    case = CASES[name]
    found = _examined(saved(case, tmp_path))
    not_scored = {pattern: why for pattern, why in found.patterns.items() if why is not None}
    actual = {**found.facts, "not_scored": not_scored}
    assert {key: actual[key] for key in facts} == facts
    assert (actual["layers"], actual["heads"], actual["template"]) == (3, 4, case.template)
    assert not actual["masked_lm_head"] and found.measures["cls"] is None
    assert found.measures["masked-lm"] and found.measures["next-sentence"]


def test_a_trained_head_and_segments_that_are_heeded(shared: Path) -> None:
    found = _examined(shared / "models" / "minilm-l6-mlm")
    facts = found.facts
    assert facts["masked_lm_head"] and facts["next_sentence_head"] and facts["segment_ids"]
    assert not facts["classifier_head"] and found.patterns == dict.fromkeys(found.patterns)
    no_classifier = "the checkpoint has no trained classifier head"
    assert found.measures == {**dict.fromkeys(MEASURES), "classifier": no_classifier}
    assert (facts["layers"], facts["heads"], facts["longest_input"]) == (6, 12, 512)
