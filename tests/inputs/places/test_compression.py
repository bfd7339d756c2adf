"""Packed files are read through, or refused in one line; none takes more memory than it may."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from pair_files import AB, CD, EF, HEADER, Make, pairs_in, parquet, refusal

from attnscan.errors import PairsError
from attnscan.inputs.pairs import read_pairs
from attnscan.inputs.places import compression
from attnscan.inputs.places.compression import unpacked

PACKS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".bz2": bz2.compress,
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    ".xz": lzma.compress,
}
CALLED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard", ".xz": "xz"}


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


def test_zeros_may_follow_gzip_and_xz() -> None:
    for packing in (".gz", ".xz"):
        pack = PACKS[packing]
        assert _read(pack(b"a") + bytes(8) + pack(b"b") + bytes(140_000), f"p.csv{packing}") == b"ab"


def test_what_is_cut_short_or_goes_on_otherwise(packing: str) -> None:
    content = PACKS[packing](b"the cat sat on the mat " * 99)
    for cut in range(12, len(content)):
        with pytest.raises(PairsError, match=f"p.csv{packing} is not a complete {CALLED[packing]} file: "):
            _read(content[:cut], f"p.csv{packing}")
    for garbage in (b"garbage", b"\1", b"a" * 99):
        with pytest.raises(PairsError, match=f"is not a complete {CALLED[packing]} file: "):
            _read(content + garbage, f"p.csv{packing}")


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
    what = f"p.csv{packing} is not {CALLED[packing]} but "
    for other, pack in PACKS.items():
        if other != packing:
            with pytest.raises(PairsError, match=f"{what}{CALLED[other]}; rename it, or compress it again"):
                _read(pack(b"a,b"), f"p.csv{packing}")
    for content, told in (("text\nthé cät\n".encode() * 9, "plain text"), (bytes(99), "something else")):
        with pytest.raises(PairsError, match=f"{what}{told}"):
            _read(content, f"p.csv{packing}")
    with pytest.raises(PairsError, match=f"is empty; {CALLED[packing]} writes some bytes even for an empty file"):
        _read(b"", f"p.csv{packing}")


def test_a_packed_file_whose_name_does_not_say_so(tmp_path: Path, packing: str) -> None:
    error = refusal(_path(tmp_path, "p.csv", PACKS[packing](b"text\na\n")))
    assert error.what.endswith(f"p.csv is {CALLED[packing]}")
    assert error.remedy == f"unpack it first, or let its name end in {packing}"


def test_a_workbook_whose_name_does_not_say_so(make: Make) -> None:
    assert "p.csv is a zip file, as .xlsx is" in refusal(make("p.csv", b"PK\3\4" + bytes(50))).what


def test_a_bomb_is_read_as_a_stream(packing: str) -> None:
    bomb = PACKS[packing](bytes(32 << 20))
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    with unpacked(_file(bomb), f"p.csv{packing}", ".csv") as stream:
        assert sum(len(part) for part in iter(lambda: stream.read(1 << 16), b"")) == 32 << 20
    assert tracemalloc.get_traced_memory()[1] < 20 << 20  # xz holds its window of 8 MiB
    tracemalloc.stop()


def test_memory_is_bounded_whatever_the_file_asks_for() -> None:
    packed = bytearray(lzma.compress(b"a" * 99))
    header = packed[12 : 12 + 4 * (packed[12] + 1)]
    header[header.index(b"\x21\x01") + 2] = 38  # the dictionary's size is one byte: 2 GiB
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    packed[12 : 12 + len(header)] = header
    with pytest.raises(PairsError, match=r"p.csv.xz needs more than 128 MiB to be unpacked; unpack it first"):
        _read(bytes(packed), "p.csv.xz")
    for window, content in ((27, b"abc" * 9999), (28, None)):
        packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window})
        frame = packer.compress(b"abc" * 9999) + packer.flush()
        if content is not None:
            assert _read(frame, "p.csv.zst") == content
        else:
            with pytest.raises(PairsError, match=r"p.csv.zst needs more than 128 MiB to be unpacked"):
                _read(frame, "p.csv.zst")


def test_a_temporary_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _path(tmp_path, "p.parquet.gz", gzip.compress(parquet({"text": ["a"] * 999}) + bytes(200_000)))
    monkeypatch.setattr(compression, "MOST_SPOOLED", 100_000)
    with pytest.raises(PairsError, match=r"p.parquet.gz is larger than .* GiB; unpack it into a file"):
        list(read_pairs([path]))


def test_zstandard_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = PACKS[".zst"](b"a")
    for name in ("compression.zstd", "backports.zstd", "backports", "compression"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PairsError, match=r"p.csv.zst needs backports.zstd, .* pip install 'attnscan\[zstd\]'"):
        _read(frame, "p.csv.zst")
