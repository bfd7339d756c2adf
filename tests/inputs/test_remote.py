"""What is elsewhere is read by fsspec as what is here is, or is one line, which shows no secret."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import fsspec
import pytest
from pair_files import AB, CD, HEADER, gzipped, pairs_in, parquet, refusal

from attnscan.errors import PairsError
from attnscan.inputs.read import read_pairs

TEXT = HEADER.encode() + b"a,b\nc,d\n"
TABLE = parquet({"sentence_a": ["a", "c"], "sentence_b": ["b", "d"]})


@pytest.fixture(autouse=True)
def store() -> Iterator[None]:
    """Some files in a store of fsspec's."""
    store = fsspec.filesystem("memory")
    for name, content in (("p.csv", TEXT), ("p.csv.gz", gzipped(TEXT)), ("p.parquet", TABLE), ("cut.csv.gz", b"x")):
        store.pipe_file(f"/data/{name}", content)
    yield
    store.rm("/data", recursive=True)


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
def test_files_of_every_kind(name: str) -> None:
    assert pairs_in(f"memory://data/{name}") == [AB, CD]


def test_what_cannot_be_read_is_one_line() -> None:
    assert refusal("memory://data/none.csv").what.startswith("cannot read memory://data/none.csv: ")
    assert "is not a whole gzip file" in refusal("memory://data/cut.csv.gz").what
    assert "Protocol not known: nowhere" in refusal("nowhere://host/p.csv").what


def test_each_file_is_named() -> None:
    with pytest.raises(PairsError, match=r"memory://data/\*.csv is not one file; name each file in full"):
        read_pairs(["memory://data/*.csv"])


@pytest.mark.parametrize("name", ["http://me:SECRET@host/p.csv?sig=SECRET", "s3://bucket/p.csv"])
def test_packages_of_stores_are_an_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for package in ("aiohttp", "s3fs"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    error = refusal(name)
    assert error.remedy == "run: pip install 'attnscan[stores]'" and "SECRET" not in str(error)


def test_secrets_in_what_a_store_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, _: str) -> None:
        raise OSError(f"no {name} here\nmore")

    monkeypatch.setattr(fsspec, "open", refuse)
    what = refusal("https://me:SECRET@host/p.csv?sig=SECRET").what
    assert what == "cannot read https://host/p.csv: no https://host/p.csv here"
