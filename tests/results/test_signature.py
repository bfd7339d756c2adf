"""What a signature says of where a result comes from."""

from dataclasses import FrozenInstanceError, replace

import pytest
from support.frozen_classes import classes_that_can_change
from support.small_results import SIGNATURE, result_of

from attnscan import results
from attnscan.results.signature import describe


@pytest.mark.parametrize(
    ("model", "title"),
    [
        ("bundled", "all-MiniLM-L6-v2"),
        ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("/data/runs/my-bert/", "my-bert"),
        ("./my-bert", "my-bert"),
        ("/", "/"),
        ("BertModel (in memory)", "BertModel (in memory)"),
    ],
)
def test_a_title_is_a_name_and_no_place(model: str, title: str) -> None:
    assert replace(SIGNATURE, model=model).title == title


def test_counts_name_what_was_cut_and_skipped() -> None:
    assert replace(SIGNATURE, pairs_read=1).counts == "1 pair"
    signature = replace(SIGNATURE, pairs_read=2000, pairs_truncated=3, pairs_skipped=1)
    assert signature.counts == "2,000 pairs, 3 cut, 1 skipped"


def test_no_result_changes_under_its_caller() -> None:
    assert classes_that_can_change(results) == []
    with pytest.raises(FrozenInstanceError):
        SIGNATURE.model = "another"  # type: ignore[misc]


def test_a_result_is_described_by_class_model_pairs_and_details() -> None:
    result = result_of([[0.1, 0, 0, 0]])
    assert describe(result, "one", "two") == "HeadScores of toy, 0 pairs, one, two"
