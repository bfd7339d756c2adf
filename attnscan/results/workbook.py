"""A table as an Excel workbook: its rows on one sheet, what is known about them on another.

Cells are typed: a number is a number in full precision, text is text whatever it begins with, what is missing is empty.
Rows are written one by one, so that memory holds the compressed file and no more. The same table gives the same bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from attnscan.errors import OutputError, needs
from attnscan.safe_text import plain

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1_048_576  # of a sheet, the names of columns included
LONGEST_TEXT = 32_767  # UTF-16 units in a cell
_DECIMALS = "0.000000"
_NOT_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MADE = datetime(1980, 1, 1)  # the first date that an archive can name
_WIDTHS = (8, 60)  # of a column, in characters
_ROOM = 3  # beside the name, for the filter's button
_MEASURED = 1000  # rows that a column's width is taken from
_CHUNK = 10_000  # rows turned into Python's own numbers at a time


def workbook(frame: pd.DataFrame) -> bytes:
    """The bytes of an .xlsx file: the rows, and what `attrs` say of them, a line a value, if they say anything.

    Raises: OutputError if Excel has no room for it, or XlsxWriter is not installed.
    """
    check_xlsxwriter()
    if len(frame) + 1 > MOST_ROWS:
        raise OutputError(
            f"{len(frame):,} rows are more than a sheet of a workbook holds, {MOST_ROWS - 1:,}",
            "write .csv or .parquet, or take fewer heads",
        )
    from xlsxwriter.exceptions import XlsxFileError

    try:
        with TemporaryDirectory() as place:
            return _bytes(frame, place)
    except (OSError, XlsxFileError) as error:
        cause = error.args[0] if isinstance(error, XlsxFileError) and error.args else error
        remedy = "free some space, or set TMPDIR"
        raise OutputError(f"cannot write the workbook: {getattr(cause, 'strerror', None) or cause}", remedy) from None


def _bytes(frame: pd.DataFrame, place: str) -> bytes:
    """The workbook; its sheets lie in a folder meanwhile."""
    import xlsxwriter

    book = xlsxwriter.Workbook(content := io.BytesIO(), {"constant_memory": True, "tmpdir": place})
    book.set_properties({"created": _MADE})
    chunks = (frame.iloc[start : start + _CHUNK] for start in range(0, len(frame), _CHUNK))
    rows = (row for chunk in chunks for row in zip(*(_values(chunk[name]) for name in chunk), strict=True))
    try:
        _fill(book, "heads" if "head" in frame.columns else "rows", [str(name) for name in frame.columns], rows)
        if frame.attrs:
            _fill(book, "about", ["name", "value"], entries(frame.attrs))
        book.close()
    finally:
        for sheet in book.worksheets():
            with suppress(OSError):  # of a full disk, which has been told
                sheet.row_data_fh.close()
    return content.getvalue()


def check_xlsxwriter() -> None:
    """Raises: OutputError if XlsxWriter is not installed."""
    with needs("writing an Excel workbook needs xlsxwriter", "excel"):
        import xlsxwriter  # noqa: F401


def entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each single value in something nested, and the way to it.

    >>> list(entries({"signature": {"model": "m", "by": "weight"}, "tokens": ["[CLS]", "cat"]}))
    [('signature.model', 'm'), ('signature.by', 'weight'), ('tokens.0', '[CLS]'), ('tokens.1', 'cat')]
    """
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    if within is None:
        yield name, value
        return
    for key, inner in within:
        yield from entries(inner, f"{name}.{key}" if name else str(key))


def _values(column: pd.Series[Any]) -> list[Any]:
    """A column as Python's own values, with None for what is missing from whole numbers."""
    return column.astype(object).where(column.notna(), None).tolist()


def _fill(book: Any, title: str, names: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Add a sheet: the names of its columns are bold, and stay in sight."""
    sheet, put = book.add_worksheet(title), _putting(book)
    first = list(islice(rows, _MEASURED))
    for column, name in enumerate(names):
        texts = (f"{row[column]:.6f}" if isinstance(row[column], float) else str(row[column]) for row in first)
        width = max(_WIDTHS[0], len(name), *map(len, texts)) + _ROOM
        sheet.set_column(column, column, min(width, _WIDTHS[1]))
    sheet.freeze_panes(1, 0)
    sheet.write_row(0, 0, names, book.add_format({"bold": True}))
    last = 0
    for last, row in enumerate(chain(first, rows), 1):
        for column, value in enumerate(row):
            put(sheet, last, column, value)
    sheet.autofilter(0, 0, last, len(names) - 1)


def _putting(book: Any) -> Callable[[Any, int, int, Any], None]:
    """What writes a value into a cell: a text as text, also when somebody edits it, and nothing for what is missing.

    Raises: OutputError for a text that is too long for a cell.
    """
    decimals, quoted = book.add_format({"num_format": "0.000000"}), book.add_format({"quote_prefix": True})

    def put(sheet: Any, row: int, column: int, value: Any) -> None:
        if isinstance(value, str) or (isinstance(value, float) and math.isinf(value)):  # no cell holds that number
            text = _NOT_XML.sub(lambda match: plain(match.group()), str(value))
            if len(text.encode("utf-16-le")) > 2 * LONGEST_TEXT:
                what = f"a text of {len(text):,} characters is longer than a cell of a workbook holds, {LONGEST_TEXT:,}"
                raise OutputError(what, "write .csv or .parquet")
            if text.startswith("<r>") and text.endswith("</r>"):  # XlsxWriter takes that for XML of its own
                sheet.write_rich_string(row, column, text[:1], quoted, text[1:], quoted)
            elif text:  # without the prefix a number, a date or a formula would be read again when edited
                sheet.write_string(row, column, text, None if text[0].isalpha() else quoted)
        elif isinstance(value, float) and not math.isnan(value):
            sheet.write_number(row, column, value, decimals)
        elif not isinstance(value, float):
            sheet.write(row, column, value)

    return put
