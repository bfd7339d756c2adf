"""Lines of text, which end in LF or CRLF, and the rows that a parser makes of them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO, TypeVar

from attnscan.errors import PairsError
from attnscan.inputs.columns import MAX_BYTES, bad_record

_MAX_REREAD = 16 * MAX_BYTES  # of one file: else one of open quotes alone would take quadratic time
_NO_TEXT = (
    (b"\xff\xfe\0\0", "UTF-32", "save it as UTF-8"),  # begins as UTF-16 does
    (b"\0\0\xfe\xff", "UTF-32", "save it as UTF-8"),
    (b"\xff\xfe", "UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16", "save it as UTF-8"),
    (b"\x1f\x8b", "gzip", "unpack it first, or let its name end in .gz"),
    (b"BZh", "bzip2", "unpack it first, or let its name end in .bz2"),
    (b"\x28\xb5\x2f\xfd", "Zstandard", "unpack it first, or let its name end in .zst"),
    (b"\xfd7zXZ\0", "xz", "unpack it first, or let its name end in .xz"),
    (b"PK\3\4", "a zip file, as .xlsx is", "let its name end in .xlsx, or unpack it"),
    (b"PAR1\x15", "Parquet", "name it as a file that ends in .parquet"),
)


_T = TypeVar("_T")


class Lines:
    """The lines of a stream, decoded, with their ends; the lines of the current row are kept."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.name = name
        self.flaw = ""
        """What is wrong with the bytes of the current row; empty if nothing is."""
        self.number = 0
        """The number of the last line that was read, from 1."""
        self._stream = stream
        self._row: list[bytes] = []
        self._again: list[bytes] = []  # lines to be read again, the next one last
        self._may_reread = _MAX_REREAD

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.pop() if self._again else self._stream.readline()
        if not line:
            raise StopIteration
        self.number += 1
        self._row.append(line)
        return self._text(line)

    def begin(self) -> None:
        """Begin a new row with the next line."""
        self._row, self.flaw = [], ""

    def back(self, keep: int = 1) -> None:
        """Read the lines of the current row again, but for the first `keep`: perhaps one only left a quote open."""
        lines = self._row[keep:]
        size = sum(map(len, lines))
        if size <= self._may_reread:
            self._may_reread -= size
            self.number -= len(lines)
            self._again.extend(reversed(lines))
            del self._row[keep:]

    @property
    def where(self) -> str:
        """The file and line where the current row starts."""
        return f"{self.name}:{self.number - len(self._row) + 1}"

    @property
    def blank(self) -> bool:
        """Whether the current row is white space."""
        return not b"".join(self._row).strip()

    def ahead(self, most: int, size: int) -> tuple[list[str], bool]:
        """Peek at the next lines, up to `most` lines and `size` bytes; return also whether there are more."""
        lines: list[bytes] = []
        while len(lines) < most and size > 0:
            if not (line := self._again.pop() if self._again else self._stream.readline()):
                most = 0
                break
            lines.append(line)
            size -= len(line)
        self._again.extend(reversed(lines))
        return [line.decode(errors="replace") for line in lines], bool(most)

    def content(self, most: int) -> bytes:
        """Read all remaining bytes, `most` at most, for a format without lines."""
        start, self._again = b"".join(reversed(self._again)), []
        content = start + self._stream.read(max(0, most - len(start)))
        self._check_is_text(content)
        return content

    def _check_is_text(self, start: bytes) -> None:
        """Raises: PairsError for a file that starts as one of another kind."""
        for mark, form, remedy in _NO_TEXT:
            if start.startswith(mark):
                raise PairsError(f"{self.name} is {form}", remedy)

    def _text(self, line: bytes) -> str:
        if self.number == 1:
            self._check_is_text(line)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:  # the structure of the row is kept, so that the next one is found
            text = line.decode(errors="surrogateescape")
            self.flaw = self.flaw or f"is not valid UTF-8 at byte {error.start + 1} of line {self.number}"
        if "\0" in text:
            self.flaw = self.flaw or f"has a NUL character in line {self.number}"
        return text.removeprefix("\ufeff") if self.number == 1 else text


def whole(lines: Lines, parsed: Iterator[_T]) -> Iterator[_T | PairsError]:
    """The rows of a parser over `lines`, with a PairsError in the place of each row that it fails on."""
    while True:
        lines.begin()
        try:
            row = next(parsed, None)
        except csv.Error as error:
            yield _unsound(lines.where, error)
            lines.back()
        else:
            if row is None:
                return
            yield bad_record(lines.where, lines.flaw) if lines.flaw else row


def _unsound(where: str, error: csv.Error) -> PairsError:
    why = str(error).partition(" - ")[0]  # without csv's advice, which is for programmers
    remedy = "correct it, pass --quoting none if its quotes are text, or --skip-bad to go on without it"
    return PairsError(f"{where}: is not valid CSV: {why}", remedy)
