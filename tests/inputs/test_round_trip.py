"""Any table comes back as it was written, and a file that is cut or changed is refused or nothing is lost."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
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

characters = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.text(characters, min_size=1, max_size=30).filter(str.strip)
tricky = st.text(st.sampled_from(list("ab \t\n\r,;\"'\\{}\ufeff\x0b\x85\u2028é😀")), min_size=1, max_size=12).filter(
    str.strip
)
tables = st.lists(st.tuples(texts | tricky, texts | tricky), max_size=8)
# Before Python 3.13, the csv module leaves a carriage return without quotes if it ends no lines.
UNQUOTED = {"lineterminator": "\n"}
STYLES: list[dict[str, Any]] = [{}, UNQUOTED, {"lineterminator": "\n", "quoting": csv.QUOTE_ALL}]
rounds = settings(deadline=None, max_examples=draws(60))


def as_csv(table: Iterable[tuple[str, str]], **style: Any) -> str:
    file = io.StringIO()
    csv.writer(file, **style).writerows([("sentence_a", "sentence_b"), *table])
    return file.getvalue()


def read_back(directory: Path, name: str, content: bytes) -> list[tuple[str, str | None]]:
    path = directory / name
    path.write_bytes(content)
    return [(pair.a, pair.b) for pair in pairs_in(str(path))]


class TestRoundTrip:
    @pytest.fixture(scope="class")
    def directory(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("round")

    @rounds
    @given(table=tables, style=st.sampled_from(STYLES), mark=st.sampled_from([b"", b"\xef\xbb\xbf"]))
    @example(table=[("\ufeffa", '"')], style={}, mark=b"")
    def test_csv(self, directory: Path, table: list[tuple[str, str]], style: dict[str, Any], mark: bytes) -> None:
        if style == UNQUOTED:
            table = [(a, b) for a, b in table if "\r" not in a + b]
        content = mark + as_csv(table, **style).encode()
        assert read_back(directory, "p.csv", content) == table
        assert read_back(directory, "p.csv.gz", gzipped(content)) == table

    @rounds
    @given(table=tables, end=st.sampled_from(["\n", "\r\n"]))
    def test_tsv(self, directory: Path, table: list[tuple[str, str]], end: str) -> None:
        flat = [(a, b) for a, b in table if not any(c in a + b for c in "\t\n\r")]
        content = end.join("\t".join(row) for row in [("sentence_a", "sentence_b"), *flat]).encode()
        assert read_back(directory, "p.tsv", content) == flat
        assert read_back(directory, "p.tsv.gz", gzipped(content)) == flat

    @rounds
    @given(table=tables, ascii_only=st.booleans())
    def test_jsonl(self, directory: Path, table: list[tuple[str, str]], ascii_only: bool) -> None:
        records = [json.dumps({"sentence_a": a, "sentence_b": b}, ensure_ascii=ascii_only) for a, b in table]
        content = "".join(f"{record}\n" for record in records).encode()
        assert read_back(directory, "p.jsonl", content) == table
        assert read_back(directory, "p.jsonl.gz", gzipped(content)) == table

    @rounds
    @given(table=tables, group=st.integers(1, 4), codec=st.sampled_from(["snappy", "zstd", "none"]))
    def test_parquet(self, directory: Path, table: list[tuple[str, str]], group: int, codec: str) -> None:
        columns = {
            name: pa.array([row[i] for row in table], pa.string()) for i, name in enumerate(["premise", "hypothesis"])
        }
        content = parquet(columns, row_group_size=group, compression=codec)
        assert read_back(directory, "p.parquet", content) == table

    @rounds
    @given(sentences=st.lists(texts.filter(lambda text: not set(text) & set("\n\r"))))
    @example(sentences=["a", "\ufeffb"])
    @example(sentences=["0\t0"])
    def test_txt(self, directory: Path, sentences: list[str]) -> None:
        if sentences and (sentences[0].startswith("\ufeff") or "\t" in sentences[0].strip()):
            sentences = ["a", *sentences]  # at the start of a file they are a mark, and a table's columns
        content = "\n".join(sentences).encode()
        assert read_back(directory, "p.txt", content) == [(sentence, None) for sentence in sentences]

    @rounds
    @given(content=st.binary(max_size=200) | st.lists(tricky).map("".join).map(str.encode), skip=st.booleans())
    @pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl", "p.txt"])
    def test_any_bytes_are_read_or_refused(self, directory: Path, name: str, content: bytes, skip: bool) -> None:
        path = directory / name
        start = b"" if name in ("p.jsonl", "p.txt") else LINES[name[2:]][0].encode()
        path.write_bytes(start + content)
        bad: list[PairsError] = []
        try:
            for record in read_pairs([str(path)], on_bad=bad.append if skip else None):
                assert record.where.startswith(f"{path}:")
        except PairsError as error:
            bad.append(error)
        assert all(len(str(error).splitlines()) == 1 and str(path) in str(error) for error in bad)
