"""Parquet and Arrow files and workbooks -> records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, dropwhile
from typing import IO, Any

from attnscan.errors import PairsError, needs
from attnscan.inputs.decoding import OnNote
from attnscan.inputs.delimited import Cells, table_rows
from attnscan.inputs.records import FileReading, Rows, pick_columns

_ROWS = 16  # of Parquet at a time: a file of a kilobyte can repeat a long cell a million times
_PARQUET = (".parquet", ".pq")


def arrow_rows(file: IO[bytes], name: str, suffix: str, reading: FileReading) -> Rows:
    """The rows of a Parquet file, an Arrow file, or an Arrow stream, as `datasets` keeps them."""
    names, table = _open_arrow(file, name, suffix)
    columns = pick_columns(reading, names)
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


def _open_arrow(file: IO[bytes], name: str, suffix: str) -> tuple[list[str], Any]:
    """The names of a table's columns, and the table."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
        import pyarrow.parquet
    if suffix in _PARQUET:
        # a checksum is seldom there, but where one is, a changed letter is found
        table = pa.parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        return table.schema_arrow.names, table
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    table = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
    return table.schema.names, table


def _arrow_batches(table: Any) -> Iterator[Any]:
    """The batches of an Arrow file, which knows their number, or of an Arrow stream."""
    if hasattr(table, "num_record_batches"):
        return map(table.get_batch, range(table.num_record_batches))
    return iter(table)


def sheet_rows(file: IO[bytes], name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a workbook's first visible sheet; blank ones count.

    `note` is told which sheet it is, if there are several.
    """
    with needs(f"reading {name} needs python-calamine", "excel", PairsError):
        from python_calamine import SheetTypeEnum, SheetVisibleEnum
    import pandas as pd

    book = pd.ExcelFile(file, engine="calamine")
    # a chart may have a sheet of its own, before these
    wanted = (SheetTypeEnum.WorkSheet, SheetVisibleEnum.Visible)
    visible = (s.name for s in book.book.sheets_metadata if (s.typ, s.visible) == wanted)
    sheet = next(visible)
    if len(book.sheet_names) > 1:
        note(f"{name}: its first visible sheet is read, {sheet!r}")
    frame = pd.read_excel(book, sheet, header=None, dtype=object, keep_default_na=False)
    table = dropwhile(lambda row: row is None, _sheet_cells(frame.replace("", None), name))
    return table_rows(table, name, reading, note)


def _sheet_cells(frame: Any, name: str) -> Cells:
    """The cells of each row of a sheet; None for a blank one."""
    is_blank = frame.isna().all(axis=1)
    rows = zip(frame.itertuples(index=False), is_blank, strict=True)
    for number, (cells, blank) in enumerate(rows, 1):
        yield None if blank else (f"{name}: row {number}", cells)
