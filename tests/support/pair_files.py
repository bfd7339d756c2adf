"""Files of pairs as tests write them, and what is read from them."""

import gzip
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnscan.errors import PairsError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading
from attnscan.inputs.sentence import Pair, Record

HEADER = "sentence_a,sentence_b\n"
AB = Pair("a", "b")
CD = Pair("c", "d")
EF = Pair("e", "f")
Make = Callable[[str, str | bytes], str]


def gzipped(data: bytes) -> bytes:
    """`data` as a gzip file without the time: what names a test is the same in every process."""
    return gzip.compress(data, 1, mtime=0)


def reading(columns: Sequence[str] | None) -> FileReading:
    return FileReading(None if columns is None else tuple(columns))


def pairs_in(*paths: str, columns: Sequence[str] | None = None) -> list[Pair]:
    return [record.pair for record in read_pairs(paths, reading(columns))]


def refusal(*paths: str, columns: Sequence[str] | None = None, skip: bool = False) -> PairsError:
    """The error that ends the reading, with or without --skip-bad."""
    with pytest.raises(PairsError) as caught:
        list(read_pairs(paths, reading(columns), (lambda _: None) if skip else None))
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.remedy
    return caught.value


def skipping(path: str) -> tuple[list[Record], list[str]]:
    """The good records, and what was said of the bad ones, without the file's directory."""
    bad: list[PairsError] = []
    good = list(read_pairs([path], on_bad=bad.append))
    assert all("``skip_bad``" in error.remedy for error in bad)
    return good, [error.what.removeprefix(f"{Path(path).parent}{os.sep}") for error in bad]


def parquet(columns: dict[str, Any] | pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


LINES = {
    "csv": [HEADER, "a,b\n", "e,f\n"],
    "tsv": ["sentence_a\tsentence_b\n", "a\tb\n", "e\tf\n"],
    "jsonl": [
        "\n",
        '{"sentence_a": "a", "sentence_b": "b"}\n',
        '{"sentence_a": "e", "sentence_b": "f"}\n',
    ],
}
