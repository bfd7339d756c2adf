"""Excel's .xlsx, by pandas and calamine: the rows of the first visible sheet of cells, hidden rows and columns too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from attnscan.errors import PairsError, needs, out_of_memory
from attnscan.inputs.columns import FileReading, OnNote, Rows, row_of
from attnscan.inputs.formats.delimited import begun


def xlsx_rows(file: IO[bytes], name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of the first visible sheet, without blank ones; `note` is told which, if there are several.

    Raises: PairsError.
    """
    with needs(f"reading {name} needs python-calamine", "excel", PairsError):
        import python_calamine  # noqa: F401
    import pandas as pd

    try:
        with pd.ExcelFile(file, engine="calamine") as book:
            title = _first_sheet(book.book.sheets_metadata, name, note)
            sheet = pd.read_excel(book, sheet_name=title, header=None, dtype=object, keep_default_na=False)
    except Exception as error:  # damage makes calamine and pandas raise several kinds
        if isinstance(error, PairsError) or out_of_memory(error):
            raise
        what = f"{name} is not a valid .xlsx file: it is damaged, has a password, or is in another format"
        raise PairsError(what, "save it again, without a password") from None
    cells = ([None if cell == "" else cell for cell in row] for row in sheet.itertuples(index=False))
    filled = ((number, row) for number, row in enumerate(cells, 1) if any(cell is not None for cell in row))
    return _table(filled, name, reading, note)


def _first_sheet(sheets: list[Any], name: str, note: OnNote) -> str:
    """The title of the first visible sheet of cells, by what calamine says of each sheet. Raises: PairsError."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    shown = (s for s in sheets if s.typ == SheetTypeEnum.WorkSheet and s.visible == SheetVisibleEnum.Visible)
    chosen = next(shown, None)
    if chosen is None:
        raise PairsError(f"{name} has no sheet of cells that is visible", "unhide the one with the table")
    if len(sheets) > 1:
        which = "first sheet" if chosen is sheets[0] else "first visible sheet of cells"
        note(f"{name}: its {which} is read, {chosen.name!r}")
    return str(chosen.name)


def _table(rows: Iterator[tuple[int, list[object]]], name: str, reading: FileReading, note: OnNote) -> Rows:
    first, header = next(rows, (0, []))
    if not header:
        raise PairsError(f"{name} is empty", "its first row must name the columns")
    names = ["" if cell is None else str(cell) for cell in header]
    columns, names_columns = begun(name, names, reading, note)
    start = first if names_columns else first - 1
    if not names_columns:
        yield row_of(f"{name}: row {first}", 1, columns, header)
    for number, cells in rows:
        yield row_of(f"{name}: row {number}", number - start, columns, cells)
