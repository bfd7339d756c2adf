"""What a signature says of where a result comes from."""

from dataclasses import replace

import pytest
from support.small_results import SIGNATURE


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
