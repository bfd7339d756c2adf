"""What a signature says to people."""

from __future__ import annotations

import pytest

from attnscan.results.signature import Signature


@pytest.mark.parametrize(
    ("model", "title"),
    [
        ("bundled", "all-MiniLM-L6-v2"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("/data/runs/my-bert/", "my-bert"),
        ("./my-bert", "my-bert"),
        ("~/models/my-bert", "my-bert"),
        ("..", ".."),
        ("/", "/"),
        (".", "."),
        ("BertModel (in memory)", "BertModel (in memory)"),
    ],
)
def test_a_title_is_a_name_and_no_place(model: str, title: str) -> None:
    assert Signature(model, *[""] * 11).title == title  # type: ignore[arg-type]
