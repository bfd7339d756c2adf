"""Decompress files as streams, in bounded memory whatever they claim.

Compressed parts in a row are one file. A file that is cut short, or followed by something else, is an error:
bz2.BZ2File and lzma.LZMAFile drop a damaged part and all behind it, and the latter holds 2 GiB for an .xz of 300 kB.
Parquet, Arrow and Excel files, which are read from their end, are decompressed into a temporary file.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tempfile
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, cast

from attnscan.errors import PairsError, needs
from attnscan.inputs.places.names import ARROW, PARQUET, SHEETS, packing_in

MOST_WINDOW = 128 << 20
"""Bytes that an unpacker may look back, and so about what it holds: .xz may ask for 4 GiB. Zstandard's own bound."""
MOST_SPOOLED = 4 << 30
"""Bytes of a temporary file."""
KINDS = {
    ".gz": ("gzip", (b"\x1f\x8b",)),
    ".bz2": ("bzip2", tuple(b"BZh%d%s" % (level, of) for level in range(1, 10) for of in (b"1AY&SY", b"\x17rE8P\x90"))),
    ".zst": ("Zstandard", (b"\x28\xb5\x2f\xfd", *(b"%c\x2a\x4d\x18" % (0x50 + low) for low in range(16)))),
    ".xz": ("xz", (b"\xfd7zXZ\0",)),
}
"""The name of each compression and the bytes that its files begin with, by suffix."""

_CHUNK = 1 << 16
_IN_MEMORY = 16 << 20
_FROM_THE_END = (*PARQUET, *ARROW, *SHEETS)


@contextmanager
def unpacked(file: IO[bytes], name: str, suffix: str) -> Iterator[IO[bytes]]:
    """A file's content, decompressed as its name says; seekable if its format needs that.

    Raises: PairsError if it is compressed in another way, or not whole.
    """
    packing = packing_in(name)
    try:
        stream = _stream(file, name, packing) if packing else file
        if suffix not in _FROM_THE_END or (stream is file and file.seekable()):
            yield stream
            return
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
            _copy(stream, cast(IO[bytes], spool), name)
            yield cast(IO[bytes], spool)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _not_whole(name, packing, error) from None


def _stream(file: IO[bytes], name: str, packing: str) -> IO[bytes]:
    what, marks = KINDS[packing]
    head: bytes = file.peek(1)  # type: ignore[attr-defined]
    if not head:
        raise PairsError(f"{name} is empty", f"{what} writes some bytes even for an empty file")
    if not any(head.startswith(mark) or mark.startswith(head) for mark in marks):
        raise PairsError(f"{name} is not {what} but {_begins_as(head)}", "rename it, or compress it again")
    if packing == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    return cast(IO[bytes], io.BufferedReader(Pieces(_unpacked(file, _decompressor(name, packing), name, packing))))


def _begins_as(head: bytes) -> str:
    for what, marks in KINDS.values():
        if head.startswith(marks):
            return what
    try:
        head[:64].decode()
    except UnicodeDecodeError as error:
        if error.start < 60:  # else a character is cut
            return "something else"
    return "plain text" if b"\0" not in head[:64] else "something else"


def _decompressor(name: str, packing: str) -> Callable[[], Any]:
    if packing == ".bz2":
        return BZ2Decompressor
    if packing == ".xz":
        bound = MOST_WINDOW + (1 << 20)  # liblzma counts some of its own besides the window
        return partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=bound)
    with needs(f"reading {name} needs backports.zstd", "zstd", PairsError):
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            from backports import zstd
    return cast(Callable[[], Any], zstd.ZstdDecompressor)


class Pieces(io.RawIOBase):
    """Pieces of bytes as a stream. No read waits to fill its buffer."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._piece = filter(None, pieces), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._piece or next(self._pieces, b"")
        size = min(len(piece), len(buffer))
        buffer[:size], self._piece = piece[:size], piece[size:]
        return size


def _unpacked(file: IO[bytes], begin: Callable[[], Any], name: str, packing: str) -> Iterator[bytes]:
    """The content of compressed parts, one behind another. Raises: PairsError."""
    rest = file.read(_CHUNK)
    while rest:
        part = begin()
        while not part.eof:
            packed, rest = rest, b""
            if not packed and part.needs_input and not (packed := file.read(_CHUNK)):
                raise _not_whole(name, packing, "it ends too soon")
            try:
                yield part.decompress(packed, _CHUNK)
            except Exception as error:  # OSError, ValueError, LZMAError, ZstdError
                raise _not_whole(name, packing, error) from None
        rest = part.unused_data.lstrip(b"\0")
        while not rest and (read := file.read(_CHUNK)):
            rest = read.lstrip(b"\0")  # xz may fill up with them


def _copy(stream: IO[bytes], spool: IO[bytes], name: str) -> None:
    size = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if size > MOST_SPOOLED:
            raise PairsError(f"{name} is larger than {MOST_SPOOLED >> 30} GiB", "unpack it into a file, and name that")
        spool.write(chunk)
    spool.seek(0)


def _not_whole(name: str, packing: str, why: object) -> PairsError:
    if "emory" in str(why):  # as both libraries say
        return PairsError(f"{name} needs more than {MOST_WINDOW >> 20} MiB to be unpacked", "unpack it first")
    return PairsError(f"{name} is not a complete {KINDS[packing][0]} file: {why}", "copy or compress it again")
