"""Parquet and Arrow files and workbooks -> records."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count, dropwhile
from typing import IO, Any

from attnscan.errors import PairsError, needs
from attnscan.inputs.delimited import Cells, table_rows
from attnscan.inputs.records import FileReading, Rows, class_names, pick_columns
from attnscan.inputs.report import FileReport
from attnscan.inputs.workbook import read_extent

_MOST_CELLS = 50_000_000  # of a sheet: each takes memory, also an empty one
_ROWS = 16  # of Parquet at a time: a file of a kilobyte can repeat a long cell a million times
_PARQUET = (".parquet", ".pq")


def arrow_rows(file: IO[bytes], suffix: str, reading: FileReading, report: FileReport) -> Rows:
    """The rows of a Parquet file, an Arrow file, or an Arrow stream, as `datasets` keeps them."""
    name = report.file
    schema, table = _open_arrow(file, name, suffix)
    names = schema.names
    columns = pick_columns(reading, names, class_names(schema))
    columns.describe(report)
    # names may be there twice, so a column is named with how many of its name stand before it
    wanted = [(names[place], names[:place].count(names[place])) for place in columns.places]
    if suffix in _PARQUET:
        only = list(dict.fromkeys(column for column, _ in wanted))
        batches = table.iter_batches(_ROWS, columns=only, use_threads=False)
    else:
        batches = _arrow_batches(table)
    numbers = count(1)
    for batch in batches:
        batch.validate(full=True)  # a file that lies about itself would show other memory
        places = [batch.schema.get_all_field_indices(column)[earlier] for column, earlier in wanted]
        cells = [batch.column(place).to_pylist() for place in places]
        for row, number in zip(zip(*cells, strict=True), numbers, strict=False):
            by_place = dict(zip(columns.places, row, strict=True))
            yield columns.record(f"{name}: row {number}", name, number, by_place)


def _open_arrow(file: IO[bytes], name: str, suffix: str) -> tuple[Any, Any]:
    """A table's schema, and the table."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
        import pyarrow.parquet
    if suffix in _PARQUET:
        # a checksum is seldom there, but where one is, a changed letter is found
        table = pa.parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        return table.schema_arrow, table
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    table = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
    return table.schema, table


def _arrow_batches(table: Any) -> Iterator[Any]:
    """The batches of an Arrow file, which knows their number, or of an Arrow stream."""
    if hasattr(table, "num_record_batches"):
        return map(table.get_batch, range(table.num_record_batches))
    return iter(table)


def sheet_rows(file: IO[bytes], reading: FileReading, report: FileReport) -> Rows:
    """The rows of a workbook's first visible sheet; blank ones count.

    A note says which sheet it is, if there are several.
    """
    with needs(f"reading {report.file} needs python-calamine", "excel", PairsError):
        from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    book = CalamineWorkbook.from_filelike(file)
    # a chart may have a sheet of its own, before these
    wanted = (SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible)
    visible = (s.name for s in book.sheets_metadata if (s.typ, s.visible) == wanted)
    sheet = next(visible)
    if len(book.sheet_names) > 1:
        report.note(f"its first visible sheet is read, {sheet!r}")
    report.sheet = sheet
    extent = read_extent(file, sheet)
    if extent.cells > _MOST_CELLS:
        raise PairsError(
            f"the sheet {sheet!r} spans {extent.rows:,} rows and {extent.columns:,} columns",
            "delete the stray cell in its last row or column, or save it as CSV",
        )
    cells = _sheet_cells(book.get_sheet_by_name(sheet), extent.formula_rows, report.file)
    return table_rows(dropwhile(lambda row: row is None, cells), reading, report)


def _sheet_cells(sheet: Any, formula_rows: Collection[int], name: str) -> Cells:
    """The cells of each row of a sheet; None for a blank one.

    A row is not blank that holds formulas without a saved value: it is a record without sentences.
    """
    if sheet.start is None:
        return
    first_row, first_column = sheet.start
    filling = [None] * first_column
    for number, values in enumerate(sheet.iter_rows(), first_row + 1):
        cells = filling + [_cell(value) for value in values]
        is_blank = all(cell is None for cell in cells) and number not in formula_rows
        yield None if is_blank else (f"{name}: row {number}", cells)
    last_row = first_row + sheet.height
    for number in sorted(row for row in formula_rows if row > last_row):
        yield f"{name}: row {number}", [None] * (first_column + sheet.width)


def _cell(value: Any) -> Any:
    """A cell's value: None for an empty one, and whole numbers as such, as pandas has them."""
    if value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
