"""Names tell formats and packing and are shown without secrets; packed files are read through, or refused in a line."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from fsspec.compression import compr
from pair_files import AB, CD, EF, HEADER, pairs_in, parquet, refusal

from attnscan.errors import PairsError
from attnscan.inputs.read import FORMATS, PACKED, format_of, shown

PACKS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".bz2": bz2.compress,
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    ".xz": lzma.compress,
}
NAMED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard", ".xz": "xz"}


@pytest.fixture(params=PACKS)
def packing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def written(tmp_path: Path, name: str, content: bytes) -> str:
    (tmp_path / name).write_bytes(content)
    return str(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", HEADER.encode() + b"a,b\nc,d\n"),
        ("p.jsonl", b'{"sentence_a": "a", "sentence_b": "b"}\n{"sentence_a": "c", "sentence_b": "d"}\n'),
        ("p.parquet", parquet({"sentence_a": ["a", "c"], "sentence_b": ["b", "d"]})),
    ],
    ids=["csv", "jsonl", "parquet"],
)
def test_every_format_packed(tmp_path: Path, packing: str, name: str, content: bytes) -> None:
    assert pairs_in(written(tmp_path, f"{name}{packing.upper()}", PACKS[packing](content))) == [AB, CD]


def test_parts_one_behind_another_are_one_file(tmp_path: Path, packing: str) -> None:
    content = b"".join(map(PACKS[packing], (HEADER.encode(), b"a,b\nc,", b"", b"d\ne,f\n")))
    assert pairs_in(written(tmp_path, f"p.csv{packing}", content)) == [AB, CD, EF]


def test_what_is_cut_short_or_packed_otherwise(tmp_path: Path, packing: str) -> None:
    content = PACKS[packing](b"text\n" + b"the cat sat on the mat\n" * 99)
    others = [pack(b"text\na\n") for other, pack in PACKS.items() if other != packing]
    for wrong in (*(content[:cut] for cut in range(12, len(content))), *others):
        what = refusal(written(tmp_path, f"p.csv{packing}", wrong)).what
        assert f"p.csv{packing} is not a whole {PACKED[packing]} file: " in what


def test_a_packed_file_whose_name_does_not_say_so(tmp_path: Path, packing: str) -> None:
    error = refusal(written(tmp_path, "p.csv", PACKS[packing](b"text\na\n")))
    assert error.what.endswith(f"p.csv is {NAMED[packing]}")
    assert error.remedy == f"unpack it first, or let its name end in {packing}"


def test_zstandard_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(compr, "zstd")
    error = refusal(written(tmp_path, "p.csv.zst", PACKS[".zst"](b"text\na\n")))
    assert "p.csv.zst needs backports.zstd" in error.what and error.remedy == "run: pip install 'attnscan[zstd]'"


def test_every_format_is_known_by_its_suffix_packed_or_not() -> None:
    for suffix in FORMATS:
        for name in (f"a{suffix}", f"a.b{suffix.upper()}", *(f"a{suffix}{packed}" for packed in PACKED)):
            assert format_of(name) == format_of(f"s3://bucket/{name}") == suffix
            assert format_of(f"https://host/{name}?download=true&as=a.doc") == suffix


@pytest.mark.parametrize("name", ["a.doc", "a.csv.gz.gz", "a.csv?x=1", "https://host/x?as=a.csv", "https://host/x"])
def test_what_tells_no_format(name: str) -> None:
    with pytest.raises(PairsError, match="cannot tell the format of"):
        format_of(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("https://me:SECRET@host:8/a.csv?sig=SECRET", "https://host:8/a.csv"),
        ("https://SECRET@host/a@b.csv#SECRET", "https://host/a@b.csv"),
        ("s3://AKIA:SEC/RET@bucket/a.csv", "s3://bucket/a.csv"),
        ("s3://bucket/a.csv?access_key=SECRET&secret_key=SECRET", "s3://bucket/a.csv"),
        ("s3://bucket/a@b.csv", "s3://bucket/a@b.csv"),
        ("gs://anonymous@bucket/a?.csv", "gs://bucket/a?.csv"),
        ("hdfs://host:8020/a@b.csv", "hdfs://host:8020/a@b.csv"),
        ("hf://datasets/org/name@~parquet/a.parquet", "hf://datasets/org/name@~parquet/a.parquet"),
        ("abfs://box@account.dfs.core.windows.net/a.csv", "abfs://box@account.dfs.core.windows.net/a.csv"),
        ("abfss://box:SECRET@account.dfs.core.windows.net/a.csv", "abfss://box@account.dfs.core.windows.net/a.csv"),
    ],
)
def test_names_are_shown_without_secrets(name: str, expected: str) -> None:
    assert shown(name) == expected
