"""Parquet is read whatever its kind of text; row groups have the rows and numbers that the whole file has."""

from __future__ import annotations

import io
import sys
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_files import Make, pairs_in, parquet, refusal

from attnscan.errors import PairsError
from attnscan.inputs.formats.columnar import RowGroups, row_groups
from attnscan.inputs.pairs import Pair, Record
from attnscan.inputs.pairs import pairs_in as pairs_of


def read(content: bytes, groups: RowGroups | None = None) -> tuple[list[Record], list[str]]:
    bad: list[PairsError] = []
    records = list(pairs_of(io.BytesIO(content), "p.parquet", on_bad=bad.append, groups=groups))
    return records, [error.what for error in bad]


@settings(deadline=None, max_examples=draws(150))
@given(
    count=st.integers(0, 60),
    group=st.integers(1, 9),
    piece=st.integers(1, 2000),
    repeated=st.booleans(),
    bad=st.booleans(),
)
def test_parts_hold_what_the_whole_holds(count: int, group: int, piece: int, repeated: bool, bad: bool) -> None:
    sentences = [f"the {'cat' if repeated else number}" for number in range(count)]
    seconds = [None if bad and number % 5 == 3 else sentence for number, sentence in enumerate(sentences)]
    columns = {"text1": pa.array(sentences, pa.string()), "text2": pa.array(seconds, pa.string())}
    content = parquet(columns, row_group_size=group)
    parts = [read(content, groups) for groups in row_groups(io.BytesIO(content), "p.parquet", piece)]
    assert 1 <= len(parts) <= max(1, -(-count // group))
    assert tuple(list(chain(*some)) for some in zip(*parts, strict=True)) == read(content)


def test_a_footer_that_lies_about_its_rows_leaves_the_file_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    content = parquet({"text": ["a"] * 9}, row_group_size=3)
    assert row_groups(io.BytesIO(content), "p.parquet", 1) == [(0, 1, 0), (1, 2, 3), (2, 3, 6)]
    true = pq.ParquetFile(io.BytesIO(content)).metadata

    class Lying:
        num_rows, num_row_groups, row_group = 10, true.num_row_groups, staticmethod(true.row_group)

    monkeypatch.setattr(pq, "ParquetFile", lambda *_, **__: type("File", (), {"metadata": Lying, "num_row_groups": 3}))
    assert row_groups(io.BytesIO(content), "p.parquet", 1) == []


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()], ids=str
)
def test_every_kind_of_text(make: Make, kind: pa.DataType) -> None:
    try:
        content = parquet({"a.b": pa.array(["a", "c"]).cast(kind), "n": [1, 2]})
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # older Arrow does not write string views
        pytest.skip("not written by this version of pyarrow")
    assert pairs_in(make("p.parquet", content), columns=["a.b"]) == [Pair("a"), Pair("c")]


def test_columns_in_any_order(make: Make) -> None:
    path = make("p.parquet", parquet({"x": ["a"], "y": ["b"]}))
    assert pairs_in(path, columns=["y", "x"]) == [Pair("b", "a")]
    assert pairs_in(path, columns=["2", "2"]) == [Pair("b", "b")]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not a valid Parquet file"),
        (b"text\na\n", "is not a valid Parquet file"),
        (b"PAR1" * 10, "is not a valid Parquet file"),
        (parquet({"text": [1, 2]}), "its column 'text' is not text but int64"),
        (parquet({"text": [b"a"]}), "its column 'text' is not text but binary"),
        (parquet({"text": pa.nulls(2)}), "its column 'text' is not text but null"),
        (parquet({"text": [["a"]]}), "its column 'text' is not text but list"),
        (parquet({"text": pa.array([1]).dictionary_encode()}), "its column 'text' is not text but int64"),
        (parquet({"x": ["a"], "y": ["b"]}), "the columns are 'x', 'y'"),
    ],
)
@pytest.mark.parametrize("skip", [False, True], ids=["", "skip"])
def test_what_is_refused(make: Make, content: bytes, why: str, skip: bool) -> None:
    path = make("p.parquet", content)
    error = refusal(path, skip=skip)
    assert error.what.startswith(path) and why in error.what


def test_two_columns_of_one_name(make: Make) -> None:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"]), file)
    path = make("p.parquet", file.getvalue())
    assert "2 columns are called 'x'" in refusal(path, columns=["x"]).what
    assert "two columns are called 'x'" in refusal(path, columns=["2"]).what


def test_without_pyarrow(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make("p.parquet", parquet({"text": ["a"]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'attnscan[parquet]'" in refusal(path).remedy
