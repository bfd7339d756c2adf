"""Row groups of a Parquet file have the very rows, with the very numbers, that one reader finds in the whole."""

from __future__ import annotations

import io
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_files import parquet

from attnscan.errors import PairsError
from attnscan.inputs.formats.columnar import RowGroups, row_groups
from attnscan.inputs.pairs import Record, pairs_in


def read(content: bytes, groups: RowGroups | None = None) -> tuple[list[Record], list[str]]:
    bad: list[PairsError] = []
    records = list(pairs_in(io.BytesIO(content), "p.parquet", on_bad=bad.append, groups=groups))
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
