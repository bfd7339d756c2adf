"""Bytes of a text file -> its lines. A guess of the encoding that could be wrong is noted."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import IO

from attnscan.errors import PairsError
from attnscan.inputs.report import FileReport

_NO_TEXT = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PK\3\4", b"PAR1")
"""How packed files and tables begin."""


def decode_lines(stream: IO[bytes], encoding: str | None, report: FileReport) -> Iterator[str]:
    """The lines of a stream, with their ends, decoded from UTF-8, or by a mark, or as asked for.

    From the first line that is not UTF-8 they are Windows-1252, unless UTF-8 beyond ASCII came
    before. What cannot be decoded is kept as U+DC80 to U+DCFF, which no sentence may have.
    """
    first = stream.readline()
    codec = "utf-16" if _has_utf16_mark(first) else encoding or "utf-8"
    report.encoding = codec.upper() if codec.startswith("utf") else codec
    if codecs.lookup(codec).name.startswith(("utf-16", "utf-32")):
        # a line end is no byte of its own, so the stream is read whole
        text = (first + stream.read()).decode(codec, "surrogatepass")
        yield from io.StringIO(text.lstrip("\ufeff"), newline="")
        return
    if b"\0" in first or first.startswith(_NO_TEXT):
        raise PairsError(
            f"{report.file} is no text: its first bytes are {first[:9]!r}",
            "unpack it, call it by its format, such as .gz, .xlsx or .parquet, "
            "or pass ``encoding=NAME``",
        )
    lines = _split_at_returns(chain([first.removeprefix(codecs.BOM_UTF8)], stream))
    if encoding is None:
        yield from _decode_guessing(lines, report)
        return
    for line in lines:
        try:
            yield line.decode(codec)
        except UnicodeDecodeError:
            yield line.decode("utf-8", "surrogateescape")


def _has_utf16_mark(first: bytes) -> bool:
    """Whether a file begins with the mark of UTF-16, and not with that of UTF-32."""
    is_utf32 = first[2:4] == b"\0\0"
    return first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not is_utf32


def _split_at_returns(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that end by a line feed as lines that a carriage return alone ends, too."""
    for line in lines:
        if b"\r" in line[:-2]:
            yield from line.splitlines(keepends=True)
        else:
            yield line


def _decode_guessing(lines: Iterator[bytes], report: FileReport) -> Iterator[str]:
    codec = "utf-8"
    may_be_windows = True
    for line in lines:
        try:
            text = line.decode(codec)
        except UnicodeDecodeError:
            text = line.decode("utf-8", "surrogateescape")
            if may_be_windows and line.decode("utf-8", "ignore").isascii():
                codec = "cp1252"
                text = line.decode(codec, "surrogateescape")
                report.encoding = "Windows-1252"
                guess = "it is not UTF-8, and is read as Windows-1252"
                report.note(f"{guess} (--encoding NAME if it is not)")
        may_be_windows = may_be_windows and text.isascii()
        yield text
