"""Streams of bytes -> rows, one at a time: CSV, TSV, JSON lines, lines of text, Parquet.

A stream may be of any length: its rows are streamed, and each is bounded in size. What is wrong with
one row is an item among the rows, which the caller may raise or count; what is wrong with the whole
is raised. Streams are not trusted, and nothing is unpickled.
Does not handle: other encodings than UTF-8, lone carriage returns as line ends, CSV and TSV without
a line of column names.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, TypeVar

from attnscan.errors import PairsError, needs
from attnscan.inputs.columns import Picked, Reading, picked
from attnscan.inputs.names import PARQUET

MAX_BYTES = 16 << 20
"""The largest row that is read, and so the most that is held of a file."""
MAX_LINES = 1 << 16
"""The most lines of one CSV row, whose quoted cells may have some."""

_MAX_REREAD = 16 * MAX_BYTES  # of one file: else one of open quotes alone would take quadratic time
_PARQUET_ROWS = 16  # a Parquet file of a kilobyte can repeat a long cell a million times
_NO_TEXT = (
    (b"\xff\xfe\0\0", "UTF-32", "save it as UTF-8"),  # begins as UTF-16 does
    (b"\0\0\xfe\xff", "UTF-32", "save it as UTF-8"),
    (b"\xff\xfe", "UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16", "save it as UTF-8"),
    (b"\x1f\x8b", "gzip", "unpack it first, or let its name end in .gz"),
    (b"PAR1\x15", "Parquet", "name it as a file that ends in .parquet"),
)

Pick = Callable[[Sequence[str], bool], Picked]
"""Which columns to read, from their names, and whether every row of the file has just these columns."""
Cells = tuple[str, Picked, Callable[[int], object]]
"""A row before it is one: where it is, which columns are read, and the cell of each of these."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Row:
    """The cells that were asked for, as they are in the file, and where they were read."""

    where: str
    file: str
    number: int
    """Which of the file's rows it is, from 1, bad ones counted."""
    sentences: tuple[object, ...]
    id: object = None
    label: object = None


def rows(stream: IO[bytes], name: str, suffix: str, reading: Reading) -> Iterator[Row | PairsError]:
    """The rows of a stream, a PairsError in the place of each bad one; without a suffix, it is sniffed.

    Raises: PairsError if the stream cannot be read on, or has not the columns; OSError, EOFError, zlib.error.
    """
    for number, found in enumerate(_found(stream, name, suffix, partial(picked, reading)), 1):
        if isinstance(found, PairsError):
            yield found
        else:
            where, columns, cell = found
            key, label = (None if each is None else cell(each) for each in (columns.id, columns.label))
            yield Row(where, name, number, tuple(map(cell, columns.sentences)), key, label)


def _found(stream: IO[bytes], name: str, suffix: str, pick: Pick) -> Iterator[Cells | PairsError]:
    if suffix in PARQUET:
        return _parquet(stream, name, pick)
    lines = Lines(stream, name)
    match suffix or _sniffed(lines):
        case ".csv":
            return _table(lines, _csv(lines), pick)
        case ".tsv":
            return _table(lines, _tsv(lines), pick)
        case ".txt":
            return _sentences(lines, pick)
        case _:
            return _jsonl(lines, pick)


def bad_record(where: str, why: str) -> PairsError:
    """The error for one record, which can be left out."""
    return PairsError(f"{where}: {why}", "correct it, or pass --skip-bad to go on without it")


class TooLong(Exception):
    """A row larger than we hold."""


class Lines:
    """The lines of a stream as text, with their ends; it remembers those of the present row."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.name = name
        self.flaw = ""
        """What is wrong with the bytes of the present row, if anything is."""
        self._stream = stream
        self._number = 0
        self._row: list[bytes] = []
        self._size = 0
        self._again: list[bytes] = []  # lines to be read again, the next one last
        self._may_reread = _MAX_REREAD
        self._within_line = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.pop() if self._again else self._read()
        if not line:
            raise StopIteration
        self._number += 1
        self._row.append(line)
        self._size += len(line)
        if self._size > MAX_BYTES or len(self._row) > MAX_LINES:
            open_quote = ", as if a quote were left open" if len(self._row) > 1 else ""
            raise TooLong(f"is longer than {MAX_BYTES >> 20} MiB or {MAX_LINES} lines{open_quote}")
        return self._text(line)

    def begin(self) -> None:
        """From here on, lines belong to a new row."""
        self._row, self._size, self.flaw = [], 0, ""

    def back(self, keep: int = 1) -> None:
        """Read the lines of the present row again, but for the first: perhaps it only left a quote open."""
        lines = self._row[keep:]
        size = sum(map(len, lines))
        if size <= self._may_reread:
            self._may_reread -= size
            self._number -= len(lines)
            self._again.extend(reversed(lines))
            del self._row[keep:]

    @property
    def where(self) -> str:
        """Where the present row starts."""
        return f"{self.name}:{self._number - len(self._row) + 1}"

    @property
    def blank(self) -> bool:
        """Whether the present row is white space alone."""
        return not b"".join(self._row).strip()

    def _read(self) -> bytes:
        while self._within_line:  # the rest of a line that was too long
            part = self._stream.readline(1 << 20)
            self._within_line = bool(part) and not part.endswith(b"\n")
        line = self._stream.readline(MAX_BYTES + 1)
        self._within_line = len(line) > MAX_BYTES and not line.endswith(b"\n")
        return line

    def _text(self, line: bytes) -> str:
        if self._number == 1:
            for start, form, remedy in _NO_TEXT:
                if line.startswith(start):
                    raise PairsError(f"{self.name} is {form}", remedy)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:  # the structure of the row is kept, so that the next one is found
            text = line.decode(errors="surrogateescape")
            self.flaw = self.flaw or f"is not valid UTF-8 at byte {error.start + 1} of line {self._number}"
        if "\0" in text:
            self.flaw = self.flaw or f"has a NUL character in line {self._number}"
        return text.removeprefix("\ufeff") if self._number == 1 else text


def _sniffed(lines: Lines) -> str:
    lines.begin()
    try:
        first = next((line for line in lines if line.strip()), "").lstrip()
    except TooLong:  # will be met again
        first = ""
    lines.back(keep=0)
    return ".jsonl" if first.startswith("{") else ".tsv" if "\t" in first else ".csv"


def _picked(name: str, pick: Pick, names: Sequence[str]) -> Picked:
    try:
        return pick(names, True)
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None


def _whole(lines: Lines, parsed: Iterator[_T]) -> Iterator[_T | PairsError]:
    """What a parser makes of the lines, row by row, and its errors, after each of which it goes on."""
    while True:
        lines.begin()
        try:
            row = next(parsed, None)
        except (csv.Error, TooLong) as error:
            detail = str(error).partition(" - ")[0]  # without csv's advice, which is for programmers
            yield bad_record(lines.where, detail if isinstance(error, TooLong) else f"is not sound CSV: {detail}")
            lines.back()
        else:
            if row is None:
                return
            yield bad_record(lines.where, lines.flaw) if lines.flaw else row


def _csv(lines: Lines) -> Iterator[list[str] | PairsError]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))  # `lines` holds the bound, whatever others set here
    for row in _whole(lines, csv.reader(lines, strict=True)):
        if isinstance(row, PairsError) or len(row) > 1 or (row and not lines.blank):
            yield row


def _tsv(lines: Lines) -> Iterator[list[str] | PairsError]:
    """Without quote processing: the quotes in the GLUE files are part of the text, and often only one of two."""
    for line in _whole(lines, lines):
        if isinstance(line, PairsError):
            yield line
        elif line.strip(" \r\n"):
            yield _without_end(line).split("\t")


def _table(lines: Lines, table: Iterator[list[str] | PairsError], pick: Pick) -> Iterator[Cells | PairsError]:
    header = next(table, None)
    if header is None:
        raise PairsError(f"{lines.name} is empty", "its first line must name the columns")
    if isinstance(header, PairsError):
        raise PairsError(header.what, "the first line must name the columns")
    columns = _picked(lines.name, pick, header)
    for row in table:
        if isinstance(row, PairsError):
            yield row
        elif len(row) != len(header):
            yield bad_record(lines.where, f"its number of fields is {len(row)}, and in the first line {len(header)}")
        else:
            yield lines.where, columns, row.__getitem__


def _sentences(lines: Lines, pick: Pick) -> Iterator[Cells | PairsError]:
    columns = _picked(lines.name, pick, ["sentence"])  # so --columns that name others are refused
    for line in _whole(lines, lines):
        if isinstance(line, PairsError):
            yield line
        elif line.strip():
            yield lines.where, columns, [_without_end(line)].__getitem__


def _jsonl(lines: Lines, pick: Pick) -> Iterator[Cells | PairsError]:
    """The first record that has the columns tells how they are called; a file without any is an error."""
    names: dict[int, str] = {}
    columns = Picked(())
    unfit: PairsError | None = None
    for line in _whole(lines, lines):
        record = line if isinstance(line, PairsError) or not line.strip() else _json_object(line, lines.where)
        if isinstance(record, PairsError):
            yield record
        elif isinstance(record, dict):
            try:
                if not names:
                    columns = pick(list(record), False)
                    names = {column: list(record)[column] for column in columns.all}
            except PairsError as error:
                unfit = unfit or error
                yield PairsError(f"{lines.where}: {error.what}", error.remedy)
                continue
            missing = [name for name in names.values() if name not in record]
            if missing:
                yield bad_record(lines.where, f"has no field {missing[0]!r}")
            else:
                yield lines.where, columns, {column: record[name] for column, name in names.items()}.__getitem__
    if unfit and not names:
        raise PairsError(f"{lines.name}: {unfit.what}", unfit.remedy)


def _json_object(line: str, where: str) -> dict[str, object] | PairsError:
    try:
        record = json.loads(line)
    except RecursionError:
        return bad_record(where, "is nested too deeply")
    except json.JSONDecodeError as error:
        return bad_record(where, f"is not sound JSON at character {error.pos + 1}: {error.msg}")
    except ValueError as error:  # a number of too many digits
        return bad_record(where, f"is not sound JSON: {error}")
    return record if isinstance(record, dict) else bad_record(where, "is not a JSON object")


def _parquet(file: IO[bytes], name: str, pick: Pick) -> Iterator[Cells | PairsError]:
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow
        import pyarrow.parquet
    try:
        # Without pre_buffer, pages are read one after another, not a whole row group at once.
        # A checksum is seldom there, but where one is, a changed letter is found.
        table = pyarrow.parquet.ParquetFile(
            file, pre_buffer=False, buffer_size=1 << 16, page_checksum_verification=True
        )
        picked = _text_columns(table.schema_arrow, pick)
        names = {column: table.schema_arrow.names[column] for column in picked.all}
        number = 0
        plain = any(not pyarrow.types.is_dictionary(table.schema_arrow.field(name).type) for name in names.values())
        size = _PARQUET_ROWS if plain else 64 * _PARQUET_ROWS  # where cells stay references, nothing is repeated
        for batch in table.iter_batches(size, columns=list(dict.fromkeys(names.values())), use_threads=False):
            columns = {column: batch.column(name) for column, name in names.items()}
            for row in range(batch.num_rows):
                number += 1
                where = f"{name}: row {number}"
                cells = _parquet_row(where, {at: column[row] for at, column in columns.items()})
                yield cells if isinstance(cells, PairsError) else (where, picked, cells.__getitem__)
        if number != table.metadata.num_rows:
            raise PairsError(f"has {table.metadata.num_rows} rows, of which {number} can be read", "write it again")
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None
    except Exception:  # Arrow raises a dozen kinds, from OSError to KeyError, with words for its developers
        raise PairsError(
            f"{name} is not a sound Parquet file: it is damaged, or of another kind", "write it again"
        ) from None


def _text_columns(schema: Any, pick: Pick) -> Picked:
    from pyarrow import types

    picked = pick(schema.names, True)
    for column in picked.all:
        field = schema.field(column)
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        if not is_text and column in picked.sentences:
            raise PairsError(f"its column {field.name!r} is not text but {field.type}", "name others with --columns")
        if schema.names.count(field.name) > 1:
            raise PairsError(f"two columns are called {field.name!r}", "rename one of them")
    return picked


def _parquet_row(where: str, cells: Mapping[int, Any]) -> dict[int, object] | PairsError:
    try:
        values = {column: cell.as_py() for column, cell in cells.items()}
    except UnicodeDecodeError as error:
        return bad_record(where, f"is not valid UTF-8 at byte {error.start + 1}")
    if any(isinstance(value, str) and len(value) > MAX_BYTES for value in values.values()):
        return bad_record(where, f"is longer than {MAX_BYTES >> 20} MiB")
    return values


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
