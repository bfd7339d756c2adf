"""What a user is told beside a result of how inputs were read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small_results import SIGNATURE as UNREAD

from attnscan.results.signature import Signature
from attnscan.run.running import WITHOUT_TAP, notes_of_inputs

SIGNATURE = replace(UNREAD, pairs_read=9)


def _said(*signatures: Signature, **about: Any) -> list[str]:
    return [note.text for note in notes_of_inputs(*signatures, **about)]


@pytest.mark.parametrize(
    ("changes", "bad", "length", "said"),
    [
        ({}, 0, None, []),
        ({"read_by": "file"}, 0, 5, []),
        ({"read_by": "output_attentions"}, 0, None, [WITHOUT_TAP]),
        ({"pairs_truncated": 1}, 0, 12, ["the input was cut to the 12 tokens that the model reads"]),
        ({"pairs_truncated": 2}, 0, None, ["2 of 9 inputs were cut to what the model reads"]),
        (
            {"pairs_truncated": 1, "pairs_skipped": 3},
            4,
            None,
            [
                "4 bad records were skipped",
                "1 of 9 inputs were cut to what the model reads",
                "3 of 9 inputs were skipped",
            ],
        ),
    ],
)
def test_what_is_told_of_the_inputs(changes: dict[str, object], bad: int, length: int | None, said: list[str]) -> None:
    assert _said(replace(SIGNATURE, **changes), bad=bad, length=length) == said  # type: ignore[arg-type]


def test_of_two_models_the_ones_without_a_tap_are_named_and_the_first_counts() -> None:
    slow = replace(SIGNATURE, model="slow", read_by="output_attentions", pairs_skipped=2)
    assert _said(SIGNATURE, slow) == [f"slow: {WITHOUT_TAP}"]
    assert _said(slow, SIGNATURE, bad=1) == [
        f"slow: {WITHOUT_TAP}",
        "1 bad record was skipped",
        "2 of 9 inputs were skipped",
    ]
