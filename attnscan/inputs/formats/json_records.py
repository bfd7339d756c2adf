"""JSON lines, and JSON documents: a list of records, or columns by their names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from attnscan.errors import PairsError
from attnscan.inputs.columns import FileReading, Picked, Row, Rows, bad_record, picked, row_of
from attnscan.inputs.formats.lines import Lines, whole

MAX_DOCUMENT = 256 << 20
"""Bytes of a JSON document; JSON lines may be of any length."""

_KINDS: dict[type, str] = {list: "list", str: "text"}


class Records:
    """Turns records into rows; the first record that has the columns decides their names for all."""

    def __init__(self, name: str, reading: FileReading) -> None:
        self._name, self._reading = name, reading
        self._columns: Picked | None = None
        self._names: dict[int, str] = {}
        self._kind: type | None = None
        self._unfit: PairsError | None = None

    def row(self, record: object, where: str, number: int) -> Row | PairsError:
        """The row of a record, or what is wrong with it."""
        kind = self._kind = self._kind or type(record)
        if not isinstance(record, kind) or not isinstance(record, dict | list | str):
            return bad_record(where, f"is not a JSON {_KINDS.get(kind, 'object')}")
        if not isinstance(record, dict):
            cells = [record] if isinstance(record, str) else record
            record = {str(at): cell for at, cell in enumerate(cells, 1)}
        if self._columns is None:
            try:
                self._columns = self._picked(record)
            except PairsError as error:
                self._unfit = self._unfit or error
                return PairsError(f"{where}: {error.what}", error.remedy)
            self._names = {at: name for at, name in enumerate(record) if at in self._columns.indexes}
        if missing := [name for name in self._names.values() if name not in record]:
            return bad_record(where, f"has no field {missing[0]!r}")
        return row_of(where, number, self._columns, {at: record[name] for at, name in self._names.items()})

    def _picked(self, record: dict[str, Any]) -> Picked:
        names, reading = list(record), self._reading
        if reading.columns is None and self._kind is not dict and len(names) < 3:
            reading = replace(reading, columns=tuple(names))
        return picked(reading, names, False)

    def check(self) -> None:
        """Raises: PairsError if no record had the columns."""
        if self._unfit and self._columns is None:
            raise PairsError(f"{self._name}: {self._unfit.what}", self._unfit.remedy)


def line_rows(lines: Lines, reading: FileReading) -> Rows:
    """The rows of JSON lines. Raises: PairsError if no record has the columns."""
    records, number = Records(lines.name, reading), 0
    for line in whole(lines, lines):
        if isinstance(line, PairsError) or line.strip():
            number += 1
            record = line if isinstance(line, PairsError) else _parsed(line, lines.where)
            yield record if isinstance(record, PairsError) else records.row(record, lines.where, number)
    records.check()


def are_lines(lines: Lines) -> bool:
    """Whether a .json file holds JSON lines: its first line is an object, and another line follows."""
    start = [line for line in lines.ahead(8, 1 << 20)[0] if line.strip()]
    try:
        return len(start) > 1 and isinstance(json.loads(start[0].removeprefix("\ufeff")), dict)
    except (ValueError, RecursionError):
        return False


def document_rows(lines: Lines, reading: FileReading) -> Rows:
    """The rows of a JSON document, which is held in memory as a whole. Raises: PairsError."""
    name = lines.name
    if len(content := lines.content(MAX_DOCUMENT + 1)) > MAX_DOCUMENT:
        raise PairsError(f"{name} is a JSON document of more than {MAX_DOCUMENT >> 20} MiB", "write it as JSON lines")
    if not content.strip():
        raise PairsError(f"{name} is empty", "it must hold a list of records")
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise PairsError(f"{name} is not valid UTF-8", "save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise PairsError(f"{name} {_why_not(error)}", "write it again") from None
    records = Records(name, reading)
    for number, record in enumerate(_records_of(document), 1):
        yield records.row(record, f"{name}: record {number}", number)
    records.check()


def _records_of(document: object) -> Iterator[object]:
    """The records of a document: a list's items, an object's columns or only list row by row, else the document.

    Columns that are objects are joined by their keys, as pandas reads them; a cell without a partner is null.
    """
    if isinstance(document, list):
        yield from document
        return
    if not isinstance(document, dict):
        yield document
        return
    if len(document) > 1 and all(isinstance(column, dict) for column in document.values()):
        for key in dict.fromkeys(key for column in document.values() for key in column):
            yield {name: column.get(key) for name, column in document.items()}
        return
    lists = {name: column for name, column in document.items() if isinstance(column, list)}
    rows = [column for column in lists.values() if column and all(isinstance(row, dict) for row in column)]
    if len(rows) == 1 and len(lists) == 1:
        yield from rows[0]
    elif lists and len(lists) == len(document) and len({len(column) for column in lists.values()}) == 1:
        yield from (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
    else:
        yield document


def _parsed(line: str, where: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return bad_record(where, _why_not(error))


def _why_not(error: ValueError | RecursionError) -> str:
    """What is wrong with a JSON text, after its name or place."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"is not valid JSON at character {error.pos + 1}: {error.msg}"
    # Python reads integers of 4,300 digits at most, since its time grows with their square
    return f"has a number of more than {sys.get_int_max_str_digits():,} digits"
