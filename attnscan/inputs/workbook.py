"""What a workbook's XML says of a sheet: how far it extends, and which rows hold formulas alone.

The reader of cells keeps every cell of that extent, and shows a formula without a saved value as an
empty cell.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO
from xml.etree import ElementTree

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_CELL = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})([0-9]{1,7})"')
_FORMULA = re.compile(
    rb'<(?:\w+:)?c\b[^>]*?\br="[A-Z]{1,3}([0-9]{1,7})"[^>]*>'
    rb"<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)(?P<value><(?:\w+:)?v>[^<])?"
)
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Extent:
    """How far a sheet extends, from its first cell to its last."""

    rows: int = 0
    columns: int = 0
    formula_rows: frozenset[int] = frozenset()
    """The rows, from 1, with a formula that has no saved value."""

    @property
    def cells(self) -> int:
        """How many cells a reader keeps."""
        return self.rows * self.columns


def read_extent(file: IO[bytes], sheet: str) -> Extent:
    """Read the extent of a sheet from a workbook's XML; an empty one if it is written otherwise."""
    try:
        with zipfile.ZipFile(file) as archive, archive.open(_member(archive, sheet)) as xml:
            return _extent(xml)
    except (KeyError, ValueError, zipfile.BadZipFile, ElementTree.ParseError):
        return Extent()


def _member(archive: zipfile.ZipFile, sheet: str) -> str:
    """The name of the file that holds a sheet. Raises: KeyError."""
    book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    ids = {tag.get("name"): tag.get(_LINK) for tag in book.iter(f"{_MAIN}sheet")}
    targets = {tag.get("Id"): tag.get("Target", "") for tag in links}
    target = targets[ids[sheet]]
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _extent(xml: IO[bytes]) -> Extent:
    rows: set[int] = set()
    columns: set[bytes] = set()
    formula_rows: set[int] = set()
    for text in _whole_rows(xml):
        for column, row in _CELL.findall(text):
            rows.add(int(row))
            columns.add(column)
        formulas = _FORMULA.finditer(text)
        formula_rows.update(int(match[1]) for match in formulas if not match["value"])
    if not rows:
        return Extent()
    numbers = [_column_number(column) for column in columns]
    return Extent(
        rows=max(rows) - min(rows) + 1,
        columns=max(numbers) - min(numbers) + 1,
        formula_rows=frozenset(formula_rows),
    )


def _whole_rows(xml: IO[bytes]) -> Iterator[bytes]:
    """The text of a sheet in parts that end with a row."""
    rest = b""
    while block := xml.read(_BLOCK):
        rows, end, rest = (rest + block).rpartition(b"row>")
        yield rows + end
    yield rest


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number
