"""JSON lines, a record a line, and JSON documents: a list of records, or columns by their names."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from attnscan.errors import PairsError
from attnscan.inputs.columns import Picked, Reading, picked
from attnscan.inputs.formats.found import MAX_BYTES, Found, FoundRows, bad_record
from attnscan.inputs.formats.lines import Lines, whole

_GOES_ON = re.compile(r"[0-9.eE+-]")  # what a number may go on with, which its start is without
_SPACE = re.compile(r"[ \t\n\r]*")
_KINDS: dict[type, str] = {list: "list", str: "text"}


class Records:
    """Records of a file, one after another: the first that has the columns tells what they are called."""

    def __init__(self, name: str, reading: Reading) -> None:
        self._name, self._reading = name, reading
        self._columns: Picked | None = None
        self._names: dict[int, str] = {}
        self._kind: type | None = None
        self._unfit: PairsError | None = None

    def found(self, record: object, where: str, number: int) -> Found | PairsError:
        """A record as a row."""
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
        return Found(where, number, self._columns, {at: record[name] for at, name in self._names.items()})

    def _picked(self, record: dict[str, Any]) -> Picked:
        names, reading = list(record), self._reading
        if reading.columns is None and self._kind is not dict and len(names) < 3:
            reading = replace(reading, columns=tuple(names))
        return picked(reading, names, False)

    @property
    def known(self) -> bool:
        """Whether a record had the columns."""
        return self._columns is not None

    def check(self) -> None:
        """Raises: PairsError if no record had the columns."""
        if self._unfit and self._columns is None:
            raise PairsError(f"{self._name}: {self._unfit.what}", self._unfit.remedy)


def line_rows(lines: Lines, reading: Reading) -> FoundRows:
    """The rows of JSON lines; a file without any that has the columns is an error, and so is such a part."""
    records = Records(lines.name, reading)
    if lines.elsewhere:
        next((None for _ in _line_rows(lines, records) if records.known), None)
        lines.jump()
    yield from _line_rows(lines, records)
    records.check()
    if not records.known and lines.ended():
        raise PairsError(f"{lines.name} tells too late where its sentences are", "read it as a whole")


def _line_rows(lines: Lines, records: Records) -> FoundRows:
    for line in whole(lines, lines):
        if isinstance(line, PairsError) or line.strip():
            lines.rows += 1
            record = line if isinstance(line, PairsError) else _parsed(line, lines.where)
            yield record if isinstance(record, PairsError) else records.found(record, lines.where, lines.rows)


def are_lines(lines: Lines) -> bool:
    """Whether what is to come is JSON lines, and no document: an object is in the first line, and another follows."""
    start = [line for line in lines.ahead(8, 1 << 20)[0] if line.strip()]
    try:
        return len(start) > 1 and isinstance(json.loads(start[0].removeprefix("\ufeff")), dict)
    except (ValueError, RecursionError):
        return False


def document_rows(lines: Lines, reading: Reading) -> FoundRows:
    """The rows of a JSON document. Raises: PairsError; after what is not sound JSON there is no going on."""
    records = Records(lines.name, reading)
    for number, record in enumerate(_Document(lines).records(), 1):
        yield records.found(record, f"{lines.name}: record {number}", number)
    records.check()


class _Document:
    """A document that is read piece by piece, of which one record at a time is held."""

    def __init__(self, lines: Lines) -> None:
        self._pieces = lines.pieces()
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._name = lines.name
        self._text, self._at, self._before = "", 0, 0

    def records(self) -> Iterator[object]:
        """The items of a list; else the rows of an object of columns, or of the only list within one; else it."""
        match self._peek():
            case "":
                raise PairsError(f"{self._name} is empty", "it must hold a list of records")
            case "[":
                self._at += 1
                yield from self._items()
            case _:
                first = self._value()
                if not self._peek():
                    yield from _rows_of(first)
                    return
                yield first  # objects one after another
                while self._peek():
                    yield self._value()
                return
        if self._peek():
            raise self._unsound("something follows its end")

    def _items(self) -> Iterator[object]:
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            after = self._peek()
            self._at += 1
            if after == "]":
                return
            if after != ",":
                raise self._unsound("a comma or the end of the list is expected" if after else "it ends within a list")

    def _peek(self) -> str:
        """The next character that is no white space; none at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _value(self) -> object:
        """The next value. What is read on grows twofold, so that trying again takes no quadratic time."""
        self._peek()
        more, enough = True, 1
        while True:
            while more and len(self._text) - self._at < enough:
                more = self._more()
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._unsound("it is nested too deeply") from None
            except ValueError as error:  # one that is no JSONDecodeError: a number of too many digits
                if not more:
                    raise self._unsound(getattr(error, "msg", str(error)), getattr(error, "pos", self._at)) from None
            else:
                if not more or (end < len(self._text) and not _GOES_ON.match(self._text, end)):
                    self._at = end
                    return value
            if len(self._text) - self._at > MAX_BYTES:
                raise PairsError(
                    f"{self._name}: a record is longer than {MAX_BYTES >> 20} MiB", "write it as JSON lines"
                )
            enough = 2 * (len(self._text) - self._at)

    def _more(self) -> bool:
        """Read on; whether there was anything."""
        piece = next(self._pieces, b"")
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise PairsError(f"{self._name} is not valid UTF-8", "save it as UTF-8") from None
        self._before += self._at
        self._text, self._at = self._text[self._at :] + text, 0
        return bool(piece)

    def _unsound(self, why: str, at: int | None = None) -> PairsError:
        place = self._before + (self._at if at is None else at) + 1
        return PairsError(f"{self._name} is not sound JSON at character {place}: {why}", "write it again")


def _rows_of(value: object) -> Iterator[object]:
    """What an object that is a whole document holds: columns by their names, a list of rows, or one row, itself."""
    if not isinstance(value, Mapping):
        yield value
        return
    cells = {name: list(column.values()) if isinstance(column, dict) else column for name, column in value.items()}
    lists = {name: column for name, column in cells.items() if isinstance(column, list)}
    rows = [column for column in lists.values() if column and all(isinstance(row, dict) for row in column)]
    if len(rows) == 1 and len(lists) == 1:
        yield from rows[0]
    elif lists and len(lists) == len(cells) and len({len(column) for column in lists.values()}) == 1:
        yield from (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
    else:
        yield value


def _parsed(line: str, where: str) -> object:
    try:
        return json.loads(line)
    except RecursionError:
        return bad_record(where, "is nested too deeply")
    except json.JSONDecodeError as error:
        return bad_record(where, f"is not sound JSON at character {error.pos + 1}: {error.msg}")
    except ValueError as error:  # a number of too many digits
        return bad_record(where, f"is not sound JSON: {error}")
