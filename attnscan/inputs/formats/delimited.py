"""CSV, TSV, and text files: a sentence a line, or a table with tabs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from attnscan.errors import PairsError
from attnscan.inputs.columns import FileReading
from attnscan.inputs.formats.dialect import SAMPLE, begun, is_quoted, separator, shows_quoting
from attnscan.inputs.formats.lines import Lines, TooLong, whole
from attnscan.inputs.formats.row import MAX_BYTES, OnNote, Rows, bad_record, picked_in, row_of

_SAID = re.compile('"?sep=(.)"?\r?\n?')  # Excel's own first line, which says what separates the cells
Cells = Iterator[list[str] | PairsError]


def first_line(lines: Lines) -> str:
    """Peek at the first line that is not blank; empty if there is none, or it is too long."""
    lines.begin()
    try:
        return next((line for line in lines if line.strip()), "")
    except TooLong:  # will be met again
        return ""
    finally:
        lines.back(keep=0)


def csv_rows(lines: Lines, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a CSV file, whose cells may be separated by semicolons or tabs as well."""
    first = first_line(lines)
    if said := _SAID.fullmatch(first):
        between = said[1]
        next(line for line in lines if line.strip())
    elif (between := separator(first, reading)) != ",":
        named = "tabs" if between == "\t" else "semicolons"
        note(f"{lines.name}: its columns are taken to be separated by {named}")
    cells = _unquoted(lines, between) if reading.quoting == "none" else _quoted(lines, between)
    return _table(lines, cells, reading, note)


def tsv_rows(lines: Lines, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a TSV file."""
    match reading.quoting:
        case "csv":
            cells = _quoted(lines, "\t")
        case "none":
            cells = _unquoted(lines, "\t")
        case "auto":
            cells = _judged(lines, "\t", note)
    return _table(lines, cells, reading, note)


def text_rows(lines: Lines, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a text file: its lines, or those of a table where the first line has a tab inside."""
    if "\t" in first_line(lines).strip() or reading.header:
        return tsv_rows(lines, reading, note)
    return _sentences(lines, reading)


def _sentences(lines: Lines, reading: FileReading) -> Rows:
    columns = picked_in(lines.name, reading, ["sentence"])  # so --columns that name others are refused
    for line in whole(lines, lines):
        if isinstance(line, PairsError):
            yield line
        elif line.strip():
            yield row_of(lines.where, lines.number, columns, [_without_end(line)])


def _table(lines: Lines, table: Cells, reading: FileReading, note: OnNote) -> Rows:
    header = next(table, None)
    if header is None:
        raise PairsError(f"{lines.name} is empty", "its first line must name the columns")
    if isinstance(header, PairsError):
        raise PairsError(header.what, "the first line must name the columns")
    columns, names_columns = begun(lines.name, header, reading, note)
    needed, number = 1 + max(columns.indexes), 0
    if not names_columns:
        number = 1
        yield row_of(lines.where, number, columns, header)
    for cells in table:
        number += 1
        if isinstance(cells, PairsError):
            yield cells
        elif names_columns and len(cells) != len(header):
            why = f"its number of fields is {len(cells)}, and in the first line {len(header)}"
            yield bad_record(lines.where, why)
        elif len(cells) < needed:
            yield bad_record(lines.where, f"its number of fields is {len(cells)}, and {needed} are needed")
        else:
            yield row_of(lines.where, number, columns, cells)


def _quoted(lines: Lines, between: str) -> Cells:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))  # `lines` holds the bound, whatever others set here
    for row in whole(lines, csv.reader(lines, delimiter=between, strict=True)):
        if isinstance(row, PairsError) or len(row) > 1 or (row and not lines.blank):
            yield row


def _unquoted(lines: Lines, between: str) -> Cells:
    for line in whole(lines, lines):
        if isinstance(line, PairsError):
            yield line
        elif line.strip(" \r\n"):
            yield _without_end(line).split(between)


def _judged(lines: Lines, between: str, note: OnNote) -> Cells:
    """Rows without quote processing, as GLUE's files need, unless the lines from the first quoted cell on show quoting.

    A cell that looks quoted later is noted once.
    """
    width: int | None = None
    quoted: bool | None = None  # unknown until a cell begins with a quote
    warned = False
    for line in whole(lines, lines):
        if isinstance(line, PairsError):
            yield line
            continue
        if not line.strip(" \r\n"):
            continue
        cells = _without_end(line).split(between)
        if quoted is None and '"' in line and any(cell.startswith('"') for cell in cells):
            sample, cut = lines.ahead(*SAMPLE)
            quoted = is_quoted([line, *sample], width, between, cut=cut)
            if quoted:
                note(f"{lines.name}: its cells are quoted, and are read so (--quoting none if the quotes are text)")
                lines.back(keep=0)
                yield from _quoted(lines, between)
                return
        if not warned and '""' in line and shows_quoting(cells):
            warned = True
            note(f"{lines.where}: a cell looks quoted, and its quotes are read as text (--quoting csv if they are not)")
        width = width or len(cells)
        yield cells


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
