"""Packed files are read through, or refused in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from fsspec.compression import compr
from pair_files import AB, CD, EF, HEADER, Make, pairs_in, parquet, refusal

from attnscan.errors import PairsError
from attnscan.inputs.places.files import unpacked

PACKS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".bz2": bz2.compress,
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    ".xz": lzma.compress,
}
CALLED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
NAMED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard", ".xz": "xz"}


@pytest.fixture(params=PACKS)
def packing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _read(content: bytes, name: str) -> bytes:
    with unpacked(_file(content), name, ".csv") as stream:
        return stream.read()


def _file(content: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(content))  # type: ignore[arg-type]


def _path(tmp_path: Path, name: str, content: bytes) -> str:
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
    assert pairs_in(_path(tmp_path, f"{name}{packing.upper()}", PACKS[packing](content))) == [AB, CD]


def test_parts_one_behind_another_are_one_file(tmp_path: Path, packing: str) -> None:
    content = b"".join(map(PACKS[packing], (HEADER.encode(), b"a,b\nc,", b"", b"d\ne,f\n")))
    assert pairs_in(_path(tmp_path, f"p.csv{packing}", content)) == [AB, CD, EF]


def test_what_is_cut_short(packing: str) -> None:
    content = PACKS[packing](b"the cat sat on the mat " * 99)
    for cut in range(12, len(content)):
        with pytest.raises(PairsError, match=f"p.csv{packing} is not a whole {CALLED[packing]} file: "):
            _read(content[:cut], f"p.csv{packing}")


def test_a_changed_byte_is_found(packing: str) -> None:
    content, refused = PACKS[packing](b"the cat sat on the mat"), 0
    for at in range(len(content)):
        try:
            _read(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :], f"p.csv{packing}")
        except PairsError as error:
            refused += 1
            assert len(str(error).splitlines()) == 1
    assert refused > len(content) // 2


def test_another_packing_than_the_name_says(packing: str) -> None:
    for other, pack in PACKS.items():
        if other != packing:
            with pytest.raises(PairsError, match=f"p.csv{packing} is not a whole {CALLED[packing]} file"):
                _read(pack(b"a,b"), f"p.csv{packing}")


def test_a_packed_file_whose_name_does_not_say_so(tmp_path: Path, packing: str) -> None:
    error = refusal(_path(tmp_path, "p.csv", PACKS[packing](b"text\na\n")))
    assert error.what.endswith(f"p.csv is {NAMED[packing]}")
    assert error.remedy == f"unpack it first, or let its name end in {packing}"


def test_a_workbook_whose_name_does_not_say_so(make: Make) -> None:
    assert "p.csv is a zip file, as .xlsx is" in refusal(make("p.csv", b"PK\3\4" + bytes(50))).what


def test_zstandard_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(compr, "zstd")
    with pytest.raises(PairsError, match=r"p.csv.zst needs backports.zstd, .* pip install 'attnscan\[zstd\]'"):
        _read(PACKS[".zst"](b"a"), "p.csv.zst")
