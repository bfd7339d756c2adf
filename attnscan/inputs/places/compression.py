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
from collections.abc import Callable, Iterator
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
        raise PairsError(f"{name} is not {what} but {_begins_as(head)}", "let its name end as it is packed, or pack it")
    if packing == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    return cast(IO[bytes], io.BufferedReader(_Unpacker(file, _decompressor(name, packing), name, packing)))


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


class _Unpacker(io.RawIOBase):
    """The compressed parts of a file as one stream."""

    def __init__(self, file: IO[bytes], begin: Callable[[], Any], name: str, packing: str) -> None:
        self._file, self._begin = file, begin
        self._not_whole = partial(_not_whole, name, packing)
        self._part: Any = begin()
        self._rest = b""  # of what was read, for the next part

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._part.eof:
                self._rest = self._part.unused_data.lstrip(b"\0") or self._rest
                while not self._rest:
                    if not (read := self._file.read(_CHUNK)):
                        return 0
                    self._rest = read.lstrip(b"\0")  # xz may fill up with them
                self._part = self._begin()
            packed, self._rest = self._rest, b""
            if not packed and self._part.needs_input and not (packed := self._file.read(_CHUNK)):
                raise self._not_whole("it ends too soon")
            try:
                piece = self._part.decompress(packed, len(buffer))
            except Exception as error:  # OSError, ValueError, LZMAError, ZstdError
                raise self._not_whole(error) from None
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)


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
    return PairsError(f"{name} is not a whole {KINDS[packing][0]} file: {why}", "copy or compress it again")
