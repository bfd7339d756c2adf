"""A table as an Excel workbook: its rows on one sheet, what is known about them on another.

Cells are typed: a number is a number in full precision, text is text whatever it begins with, what is missing is empty.
Rows are written one by one, so that memory holds the compressed file and no more. The same table gives the same bytes.
"""

from __future__ import annotations

import io
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from attnscan.errors import OutputError, needs
from attnscan.safe_text import plain

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1_048_576  # of a sheet, the names of columns included
LONGEST_TEXT = 32_767  # UTF-16 units in a cell
_DECIMALS = "0.000000"
_NOT_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LIKE_AN_ESCAPE = re.compile("_(?=x[0-9A-Fa-f]{4}_)")  # `_x0041_` in a workbook is an A
_MADE = (1980, 1, 1, 0, 0, 0)  # the first date that an archive can name
_WIDTHS = (8, 60)  # of a column, in characters
_ROOM = 3  # beside the name, for the filter's button
_MEASURED = 1000  # rows that a column's width is taken from
_CHUNK = 10_000  # rows turned into Python's own numbers at a time


def workbook(frame: pd.DataFrame) -> bytes:
    """The bytes of an .xlsx file: the rows, and what `attrs` say of them, a line a value, if they say anything.

    Raises: OutputError if Excel has no room for it, or openpyxl is not installed.
    """
    check_openpyxl()
    if len(frame) + 1 > MOST_ROWS:
        raise OutputError(
            f"{len(frame):,} rows are more than a sheet of a workbook holds, {MOST_ROWS - 1:,}",
            "write .csv or .parquet, or take fewer heads",
        )
    try:
        return _bytes(frame)
    except OSError as error:  # openpyxl keeps the sheets in temporary files
        raise OutputError(
            f"cannot write the workbook: {error.strerror or error}", "free some space, or set TMPDIR"
        ) from None


def _bytes(frame: pd.DataFrame) -> bytes:
    from openpyxl import Workbook
    from openpyxl.writer.excel import ExcelWriter

    book = Workbook(write_only=True)
    book.properties.created = book.properties.modified = datetime(*_MADE[:3])
    chunks = (frame.iloc[start : start + _CHUNK] for start in range(0, len(frame), _CHUNK))
    rows = (row for chunk in chunks for row in zip(*(_values(chunk[name]) for name in chunk), strict=True))
    _fill(book, "heads" if "head" in frame.columns else "rows", [str(name) for name in frame.columns], rows)
    if frame.attrs:
        _fill(book, "about", ["name", "value"], entries(frame.attrs))
    content = io.BytesIO()
    ExcelWriter(book, _Archive(content, "w")).save()
    return content.getvalue()


def check_openpyxl() -> None:
    """Raises: OutputError if openpyxl is not installed."""
    with needs("writing an Excel workbook needs openpyxl", "excel"):
        import openpyxl  # noqa: F401


def entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each single value in something nested, and the way to it.

    >>> list(entries({"signature": {"model": "m", "norm": False}, "tokens": ["[CLS]", "cat"]}))
    [('signature.model', 'm'), ('signature.norm', False), ('tokens.0', '[CLS]'), ('tokens.1', 'cat')]
    """
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    if within is None:
        yield name, value
        return
    for key, each in within:
        yield from entries(each, f"{name}.{key}" if name else str(key))


def _values(column: pd.Series[Any]) -> list[Any]:
    """The same as Python's own values, with None for what a column of whole numbers lacks."""
    return column.astype(object).where(column.notna(), None).tolist()


def _fill(book: Any, title: str, names: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """One sheet more: the names of its columns are bold, and stay in sight."""
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    first = list(islice(rows, _MEASURED))
    letters = [get_column_letter(number) for number in range(1, len(names) + 1)]
    with _sheet(book, title) as sheet:
        for place, (letter, name) in enumerate(zip(letters, names, strict=True)):
            shown = (
                name,
                *(f"{row[place]:.6f}" if isinstance(row[place], float) else str(row[place]) for row in first),
            )
            sheet.column_dimensions[letter].width = min(max(_WIDTHS[0], *map(len, shown)) + _ROOM, _WIDTHS[1])
        sheet.freeze_panes = "A2"
        header = [_text(sheet, name) for name in names]
        for cell in header:
            cell.font = Font(bold=True)
        sheet.append(header)
        last = 1
        for last, row in enumerate(chain(first, rows), 2):  # noqa: B007 (it is the number of rows)
            sheet.append([_cell(sheet, value) for value in row])
        sheet.auto_filter.ref = f"A1:{letters[-1]}{last}"


@contextmanager
def _sheet(book: Any, title: str) -> Iterator[Any]:
    """A sheet that is written meanwhile; if that fails, it is put away without a word of its own."""
    sheet = book.create_sheet(title)
    try:
        yield sheet
        sheet.close()
    except BaseException:
        with suppress(Exception):
            sheet.close()
        with suppress(Exception):
            sheet._writer.close()
        raise


def _cell(sheet: Any, value: Any) -> Any:
    """What a sheet takes for a value; None for what is missing. Raises: OutputError for a text that is too long."""
    from openpyxl.cell import WriteOnlyCell

    if isinstance(value, str):
        return _text(sheet, value) if value else None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):  # which no cell holds as a number
            return _text(sheet, str(value))
        cell = WriteOnlyCell(sheet, value)
        cell.number_format = _DECIMALS
        return cell
    return value


def _text(sheet: Any, text: str) -> Any:
    """A cell that is text, and that stays text when somebody edits it."""
    from openpyxl.cell import WriteOnlyCell

    shown = _LIKE_AN_ESCAPE.sub("_x005F_", _NOT_XML.sub(lambda match: plain(match.group()), text))
    if len(shown.encode("utf-16-le")) > 2 * LONGEST_TEXT:
        raise OutputError(
            f"a text of {len(text):,} characters is longer than a cell of a workbook holds, {LONGEST_TEXT:,}",
            "write .csv or .parquet",
        )
    cell = WriteOnlyCell(sheet, shown)
    cell.data_type = "s"  # also what begins with an equals sign, or reads #N/A
    if not shown[:1].isalpha():
        cell.quotePrefix = True  # else it would be read again, as a formula, a number or a date
    return cell


class _Archive(ZipFile):
    """An archive whose entries tell no time."""

    def writestr(self, zinfo_or_arcname: Any, data: Any, *_: Any, **__: Any) -> None:
        with self.open(_entry(zinfo_or_arcname), "w") as entry:
            entry.write(data.encode("utf-8") if isinstance(data, str) else data)

    def write(self, filename: Any, arcname: Any = None, *_: Any, **__: Any) -> None:
        with Path(filename).open("rb") as file, self.open(_entry(arcname), "w", force_zip64=True) as entry:
            shutil.copyfileobj(file, entry)


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(name, _MADE)
    entry.compress_type = ZIP_DEFLATED
    return entry
