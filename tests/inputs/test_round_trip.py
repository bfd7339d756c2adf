"""Any table comes back as it was written, and any bytes are read or refused in a line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from draws import draws
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pair_files import LINES, gzipped, pairs_in, parquet

from attnscan.errors import PairsError
from attnscan.inputs.read import read_pairs

Table = list[tuple[str, str]]
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30).filter(str.strip)
tricky = st.text(st.sampled_from(list("ab \t\n\r,;\"'\\{}\ufeff\x0b\x85\u2028é😀")), min_size=1, max_size=12).filter(
    str.strip
)
tables = st.lists(st.tuples(texts | tricky, texts | tricky), max_size=8)


def as_csv(table: Table, **style: Any) -> bytes:
    file = io.StringIO()
    csv.writer(file, **style).writerows([("sentence_a", "sentence_b"), *table])
    return file.getvalue().encode()


def as_tsv(table: Table, end: str = "\n") -> bytes:
    return end.join("\t".join(row) for row in [("sentence_a", "sentence_b"), *table]).encode()


def as_jsonl(table: Table, ensure_ascii: bool = False) -> bytes:
    rows = [json.dumps({"sentence_a": a, "sentence_b": b}, ensure_ascii=ensure_ascii) for a, b in table]
    return "".join(f"{row}\n" for row in rows).encode()


def as_parquet(table: Table, **options: Any) -> bytes:
    cells = zip(*table, strict=True) if table else ((), ())
    columns = (pa.array(column, pa.string()) for column in cells)
    return parquet(dict(zip(("premise", "hypothesis"), columns, strict=True)), **options)


# Name -> characters that no cell may have, and how a table is written
WRITERS: dict[str, tuple[str, Callable[[Table], bytes]]] = {
    "p.csv": ("", as_csv),
    # Before Python 3.13, the csv module leaves a carriage return without quotes if it ends no lines.
    "lines.csv": ("\r", partial(as_csv, lineterminator="\n")),
    "quoted.csv": ("", partial(as_csv, lineterminator="\n", quoting=csv.QUOTE_ALL)),
    "marked.csv": ("", lambda table: b"\xef\xbb\xbf" + as_csv(table)),
    "p.tsv": ("\t\n\r", as_tsv),
    "dos.tsv": ("\t\n\r", partial(as_tsv, end="\r\n")),
    "p.jsonl": ("", as_jsonl),
    "ascii.jsonl": ("", partial(as_jsonl, ensure_ascii=True)),
    "p.parquet": ("", partial(as_parquet, row_group_size=2, compression="none")),
    "zstd.parquet": ("", partial(as_parquet, row_group_size=3, compression="zstd")),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


@pytest.mark.parametrize("name", WRITERS)
@settings(deadline=None, max_examples=draws(30))
@given(table=tables)
@example(table=[("\ufeffa", '"')])
def test_any_table_comes_back(directory: Path, name: str, table: Table) -> None:
    forbidden, write = WRITERS[name]
    table = [row for row in table if not set(forbidden) & set("".join(row))]
    for suffix, packed in (("", bytes), (".gz", gzipped)):
        (path := directory / f"{name}{suffix}").write_bytes(packed(write(table)))
        assert [(pair.a, pair.b) for pair in pairs_in(str(path))] == table


@settings(deadline=None, max_examples=draws(60))
@given(sentences=st.lists(texts.filter(lambda text: not set(text) & set("\n\r"))))
@example(sentences=["0\t0"])
def test_lines_come_back(directory: Path, sentences: list[str]) -> None:
    sentences = ["a", *sentences]  # at the start of a file a sentence may be a mark, or a table's columns
    (path := directory / "p.txt").write_text("\n".join(sentences), encoding="utf-8")
    assert [pair.texts for pair in pairs_in(str(path))] == [(sentence,) for sentence in sentences]


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl", "p.txt"])
@settings(deadline=None, max_examples=draws(60))
@given(content=st.binary(max_size=200) | st.lists(tricky).map("".join).map(str.encode), skip=st.booleans())
def test_any_bytes_are_read_or_refused(directory: Path, name: str, content: bytes, skip: bool) -> None:
    start = b"" if name in ("p.jsonl", "p.txt") else LINES[name[2:]][0].encode()
    (path := directory / name).write_bytes(start + content)
    bad: list[PairsError] = []
    try:
        for record in read_pairs([str(path)], on_bad=bad.append if skip else None):
            assert record.where.startswith(f"{path}:")
    except PairsError as error:
        bad.append(error)
    assert all(len(str(error).splitlines()) == 1 and str(path) in str(error) for error in bad)
