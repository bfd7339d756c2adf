"""Excel's .xlsx: the rows of the first visible sheet, as ECMA-376 defines its parts (part 1, chapter 18).

Read by the standard library: openpyxl cuts "x005F_" out of any text (openpyxl/reader/strings.py), and trusts what a
sheet says of its size. Hidden rows and columns are read. Does not handle: .xls, .xlsm, passwords.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from typing import IO, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from attnscan.errors import PairsError, out_of_memory
from attnscan.inputs.columns import FileReading, OnNote, Rows, row_of
from attnscan.inputs.formats.delimited import begun

_MAX_UNPACKED = 256 << 20  # bytes: the texts of a workbook are held in memory
_MAX_ROWS = 1 << 20  # of a sheet
_MAX_ELEMENTS = 1 << 19  # of a row of at most 16,384 cells, or of a text
_NOT_ZIP = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # how .xls begins, and what Excel wraps around a file with a password
_COLUMN = re.compile("[A-Z]{1,3}")
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")  # a character that XML cannot hold (18.18, ST_Xstring); `_x005F_` is `_`
_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}  # number formats that every program has
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)  # no codes of a number format
_TRUE = ("1", "true")


class _SheetEntry(NamedTuple):
    title: str
    path: str
    kind: str
    """Such as `worksheet` or `chartsheet`."""
    hidden: bool


def xlsx_rows(file: IO[bytes], name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of the first visible sheet with cells, without blank ones; `note` is told which, if there are several.

    Raises: PairsError.
    """
    try:
        if file.read(len(_NOT_ZIP)) == _NOT_ZIP:
            raise PairsError(f"{name} is an .xls file, or has a password", "save it as .xlsx, without a password")
        with zipfile.ZipFile(file) as packed:
            size = sum(member.file_size for member in packed.infolist())  # zipfile never unpacks more than this
            if size > _MAX_UNPACKED:
                what = f"{name} unpacks to {size >> 20:,} MiB, and at most {_MAX_UNPACKED >> 20} MiB are read"
                raise PairsError(what, "save it as CSV")
            book = _Book(packed)
            yield from _table(book.rows(_chosen(book.sheets, name, note)), name, reading, note)
    except Exception as error:  # damage makes zipfile, zlib and the parser of XML raise a dozen kinds
        if isinstance(error, PairsError) or out_of_memory(error):
            raise
        what = f"{name} is not a valid .xlsx file: it is damaged, or in another format"
        raise PairsError(what, "save it again") from None


def _chosen(sheets: list[_SheetEntry], name: str, note: OnNote) -> _SheetEntry:
    chosen = next((sheet for sheet in sheets if sheet.kind == "worksheet" and not sheet.hidden), None)
    if chosen is None:
        raise PairsError(f"{name} has no sheet of cells that is visible", "unhide the one with the table")
    if len(sheets) > 1:
        which = "first sheet" if chosen is sheets[0] else "first visible sheet of cells"
        note(f"{name}: its {which} is read, {chosen.title!r}")
    return chosen


def _table(rows: Iterator[tuple[int, dict[int, object]]], name: str, reading: FileReading, note: OnNote) -> Rows:
    first, header = next(rows, (0, {}))
    if not header:
        raise PairsError(f"{name} is empty", "its first row must name the columns")
    names = ["" if header.get(at) is None else str(header[at]) for at in range(1 + max(header))]
    columns, names_columns = begun(name, names, reading, note)
    start = first if names_columns else first - 1
    if not names_columns:
        yield row_of(f"{name}: row {first}", 1, columns, {at: header.get(at) for at in columns.indexes})
    for number, cells in rows:
        yield row_of(f"{name}: row {number}", number - start, columns, {at: cells.get(at) for at in columns.indexes})


class _Book:
    def __init__(self, packed: zipfile.ZipFile) -> None:
        self._packed = packed
        main = next(path for kind, path in self._relations("").values() if kind == "officeDocument")
        relations = self._relations(main)
        self._paths = dict(relations.values())
        book = ElementTree.fromstring(packed.read(main))
        self.sheets = []
        for sheet in book.iterfind("{*}sheets/{*}sheet"):
            kind, path = relations[next(value for key, value in sheet.items() if key.endswith("}id"))]
            self.sheets.append(
                _SheetEntry(sheet.get("name", ""), path, kind, sheet.get("state", "visible") != "visible")
            )
        settings = book.find("{*}workbookPr")
        since_1904 = settings is not None and settings.get("date1904") in _TRUE
        self._first_day = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)

    def rows(self, sheet: _SheetEntry) -> Iterator[tuple[int, dict[int, object]]]:
        """The numbers of a sheet's rows, from 1, with their cells by column, from 0; blank rows and cells left out."""
        number = 0
        for row in self._elements(sheet.path, "row"):
            before, number = number, int(row.get("r") or number + 1)
            if not before < number <= _MAX_ROWS:
                raise ValueError(number)
            cells, column = dict[int, object](), -1
            for cell in row.iterfind("{*}c"):
                reference = cell.get("r")
                column = _column(reference) if reference else column + 1
                value = self._value(cell)
                if value != "":
                    cells[column] = value
            if cells:
                yield number, cells

    def _value(self, cell: Element) -> object:
        """What a cell holds: "" if it is empty, None if it holds an error or a formula that was never computed."""
        kind, text = cell.get("t", "n"), cell.findtext("{*}v") or ""
        if kind == "inlineStr":
            return "".join(map(_text, cell.iterfind("{*}is")))
        if kind == "str":
            return _unescaped(text)
        if not text:
            return "" if cell.find("{*}f") is None else None
        match kind:
            case "s":
                return self._texts[int(text)]
            case "b":
                return text in _TRUE
            case "d":
                return datetime.fromisoformat(text)
            case "n" if int(cell.get("s", 0)) in self._date_styles:
                days, part = divmod(float(text), 1)
                moment = self._first_day + timedelta(days, milliseconds=round(part * 86_400_000))
                return moment if days else moment.time()
            case "n":
                return float(text) if any(sign in text for sign in ".eE") else int(text)
        return None

    @cached_property
    def _texts(self) -> list[str]:
        return [_text(item) for item in self._elements(self._paths["sharedStrings"], "si")]

    @cached_property
    def _date_styles(self) -> set[int]:
        if "styles" not in self._paths:
            return set()
        styles = ElementTree.fromstring(self._packed.read(self._paths["styles"]))
        formats = styles.iterfind("{*}numFmts/{*}numFmt")
        codes = {form.get("numFmtId"): _LITERAL.sub("", form.get("formatCode", "")) for form in formats}
        dates = {number for number, code in codes.items() if re.search("[dmyhs]", code, re.IGNORECASE)}
        dates |= {str(number) for number in _DATES} - set(codes)
        numbers = (style.get("numFmtId") for style in styles.iterfind("{*}cellXfs/{*}xf"))
        return {style for style, number in enumerate(numbers) if number in dates}

    def _relations(self, path: str) -> dict[str, tuple[str, str]]:
        """The kind and the path of each part that a part refers to, by their ids."""
        folder, base = posixpath.split(path)
        related = ElementTree.fromstring(self._packed.read(posixpath.join(folder, "_rels", f"{base}.rels")))
        return {
            relation.get("Id", ""): (
                relation.get("Type", "").rpartition("/")[2],
                posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/"),
            )
            for relation in related
        }

    def _elements(self, path: str, name: str) -> Iterator[Element]:
        """The elements of a name in a part; no others are held, and each until the next is asked for."""
        end, parents = f"}}{name}", list[Element]()
        depth, size = 0, 0  # of the element that is wanted, while it is open
        with self._packed.open(path) as part:
            for event, element in ElementTree.iterparse(part, ("start", "end")):
                if event == "start":
                    parents.append(element)
                    if not depth and element.tag.endswith(end):
                        depth, size = len(parents), 0
                    size += 1
                    if depth and size > _MAX_ELEMENTS:
                        raise ValueError(name)
                    continue
                if len(parents) == depth:
                    yield element
                    depth = 0
                parents.pop()
                if parents and not depth:
                    parents[-1].clear()


def _text(item: Element) -> str:
    """What a text with its runs of formats shows, without phonetic guides."""
    texts = (text for run in (item, *item.iterfind("{*}r")) for text in run.iterfind("{*}t"))
    return "".join(_unescaped(text.text or "") for text in texts)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text) if "_x" in text else text


def _column(reference: str) -> int:
    """The column of a cell, from 0: 27 of `AB12`."""
    letters = _COLUMN.match(reference)
    if letters is None:
        raise ValueError(reference)
    column = 0
    for letter in letters[0]:
        column = 26 * column + ord(letter) - 64
    return column - 1
