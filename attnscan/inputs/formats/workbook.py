"""Excel's .xlsx: the rows of the first sheet."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import IO, Any

from attnscan.errors import PairsError, needs
from attnscan.inputs.columns import Reading
from attnscan.inputs.formats.dialect import begun
from attnscan.inputs.formats.found import Found, FoundRows, OnNote

_MAX_ROWS = 1 << 20  # no sheet has more, whatever a file says
_MAX_UNPACKED = 256 << 20  # bytes: the texts of a workbook are held in memory


def xlsx_rows(file: IO[bytes], name: str, reading: Reading, note: OnNote) -> FoundRows:
    """The rows of the first sheet, blank ones left out; a cell with a formula holds what that gave when it was saved.

    Raises: PairsError.
    """
    with needs(f"reading {name} needs openpyxl", "excel", PairsError):
        import openpyxl
    try:
        _check_size(file, name)
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as book:
            if len(book.worksheets) == 0:
                raise PairsError(f"{name} has no sheet", "give one with a table")
            sheet = book.worksheets[0]
            if len(book.sheetnames) > 1:
                note(f"{name}: its first sheet is read, {sheet.title!r}")
            yield from _table(sheet, name, reading, note)
    except PairsError:
        raise
    except Exception:  # openpyxl, zipfile and the parser of XML raise whatever a damaged file makes of them
        raise PairsError(
            f"{name} is not a sound .xlsx file: it is damaged, or of another kind", "save it again"
        ) from None


def _table(sheet: Any, name: str, reading: Reading, note: OnNote) -> FoundRows:
    rows = _not_blank(sheet)
    first, header = next(rows, (0, ()))
    if not header:
        raise PairsError(f"{name} is empty", "its first row must name the columns")
    columns, names_columns = begun(name, ["" if cell is None else str(cell) for cell in header], reading, note)
    start = first if names_columns else first - 1
    if not names_columns:
        yield Found(f"{name}: row {first}", 1, columns, header)
    for number, cells in rows:
        padded = (*cells, *[None] * (1 + max(columns.indexes) - len(cells)))
        yield Found(f"{name}: row {number}", number - start, columns, padded)


def _not_blank(sheet: Any) -> Iterator[tuple[int, Sequence[object]]]:
    for number, cells in enumerate(sheet.iter_rows(values_only=True, max_row=_MAX_ROWS), 1):
        if any(cell is not None and cell != "" for cell in cells):
            yield number, cells


def _check_size(file: IO[bytes], name: str) -> None:
    """Raises: PairsError if what is packed is too much; zipfile.BadZipFile."""
    with zipfile.ZipFile(file) as packed:
        size = sum(each.file_size for each in packed.infolist())  # no more than it says is ever unpacked
    if size > _MAX_UNPACKED:
        raise PairsError(
            f"{name} unpacks to {size >> 20:,} MiB, and at most {_MAX_UNPACKED >> 20} MiB are read", "save it as CSV"
        )
