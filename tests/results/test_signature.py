"""What a signature says to people."""

from __future__ import annotations

from attnscan.results.terms import Signature

TITLES = {
    "bundled": "all-MiniLM-L6-v2",
    "sentence-transformers/all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2",
    "/data/runs/my-bert/": "my-bert",
    "./my-bert": "my-bert",
    "/": "/",
    "BertModel (in memory)": "BertModel (in memory)",
}


def test_a_title_is_a_name_and_no_place() -> None:
    assert {model: Signature(model, *[""] * 11).title for model in TITLES} == TITLES  # type: ignore[arg-type]
