"""Parquet and Arrow are read whatever their kind of text."""

from __future__ import annotations

import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pair_files import Make, pairs_in, parquet, refusal

from attnscan.inputs.sentence import Pair


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()], ids=str
)
def test_every_kind_of_text(make: Make, kind: pa.DataType) -> None:
    try:
        content = parquet({"a.b": pa.array(["a", "c"]).cast(kind), "n": [1, 2]})
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # older Arrow does not write string views
        pytest.skip("not written by this version of pyarrow")
    assert pairs_in(make("p.parquet", content), columns=["a.b"]) == [Pair("a"), Pair("c")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not a valid Parquet file"),
        (b"PAR1" * 10, "is not a valid Parquet file"),
        (parquet({"text": [1, 2]}), "row 1: sentence A is not text"),
        (parquet({"text": pa.nulls(2)}), "row 1: sentence A is missing"),
        (parquet({"text": [["a"]]}), "row 1: sentence A is not text"),
        (parquet({"text": [{"de": "a", "en": "b"}]}), "row 1: sentence A is an object with the fields de, en"),
    ],
)
def test_what_is_refused(make: Make, content: bytes, why: str) -> None:
    path = make("p.parquet", content)
    error = refusal(path)
    assert error.what.startswith(path) and why in error.what


def test_without_pyarrow(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make("p.parquet", parquet({"text": ["a"]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'attnscan[parquet]'" in refusal(path).remedy


def test_two_columns_of_one_name(make: Make) -> None:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"]), file)
    path = make("p.parquet", file.getvalue())
    assert "2 columns are called 'x'" in refusal(path, columns=["x"]).what
    assert "two columns are called 'x'" in refusal(path, columns=["2"]).what


def test_columns_in_any_order(make: Make) -> None:
    path = make("p.parquet", parquet({"x": ["a"], "y": ["b"]}))
    assert pairs_in(path, columns=["y", "x"]) == [Pair("b", "a")]
    assert pairs_in(path, columns=["2", "2"]) == [Pair("b", "b")]
