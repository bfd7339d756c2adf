"""CSV, TSV, and text files: a sentence a line, or a table with tabs.

How a table was written is guessed: separators, quotes, whether its first row names the columns. A guess that could be
wrong is noted, with the option that overrides it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnscan.errors import PairsError
from attnscan.inputs.columns import (
    MAX_BYTES,
    FileReading,
    OnNote,
    Picked,
    Rows,
    bad_record,
    known_among,
    number_of,
    picked,
    row_of,
)
from attnscan.inputs.formats.lines import Lines, whole

SAMPLE = 1000, 1 << 18
"""Lines and bytes that show whether quotes are the writer's."""

_WORDS = 5  # of a cell that is a sentence, and no name
_LONGEST_NAME = 60
_SAID = re.compile('"?sep=(.)"?\r?\n?')  # Excel's own first line, which says what separates the cells
Cells = Iterator[list[str] | PairsError]


def first_line(lines: Lines) -> str:
    """Peek at the first line that is not blank; empty if there is none."""
    lines.begin()
    first = next((line for line in lines if line.strip()), "")
    lines.back(keep=0)
    return first


def csv_rows(lines: Lines, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a CSV file, whose cells may be separated by semicolons or tabs as well."""
    first = first_line(lines)
    if said := _SAID.fullmatch(first):
        between = said[1]
        next(line for line in lines if line.strip())
    elif (between := separator(first, reading)) != ",":
        named = "tabs" if between == "\t" else "semicolons"
        note(f"{lines.name}: its columns are read as separated by {named}")
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
    try:
        columns = picked(reading, ["sentence"])  # so --columns that name others are refused
    except PairsError as error:
        raise PairsError(f"{lines.name}: {error.what}", error.remedy) from None
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
    csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))  # an open quote must not take the whole file
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
        doubtful = '""' in line and shows_quoting(cells)
        if quoted is None and '"' in line and any(cell.startswith('"') for cell in cells):
            sample, cut = lines.ahead(*SAMPLE)
            quoted = is_quoted([line, *sample], width, between, cut=cut)
            if quoted:
                note(f"{lines.name}: its cells are quoted, and are read so (--quoting none if the quotes are text)")
                lines.back(keep=0)
                yield from _quoted(lines, between)
                return
            doubtful = doubtful or _goes_over_lines([line, *sample], width, between)
        if doubtful and not warned:
            warned = True
            note(f"{lines.where}: a cell looks quoted, and its quotes are read as text (--quoting csv if they are not)")
        width = width or len(cells)
        yield cells


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def begun(name: str, cells: Sequence[str], reading: FileReading, note: OnNote) -> tuple[Picked, bool]:
    """Choose the columns to read by the cells of the first row; return also whether that row names the columns.

    Raises: PairsError if the columns are not there.
    """
    names_columns = reading.header
    if names_columns is None:
        names_columns = not _is_data(cells, reading)
        if not names_columns:
            note(f"{name}: its first line looks like data, and is read as data (--header if it names the columns)")
        elif any(" " in cell.strip() for cell in _open_to_doubt(cells, reading)):
            note(f"{name}: its first line looks like names of columns, and is read as such (--no-header if it is data)")
    names = cells if names_columns else [str(number) for number in range(1, len(cells) + 1)]
    try:
        if not names_columns and reading.columns is None:
            if len(cells) > 2:
                what = f"it has {len(cells)} columns without names"
                raise PairsError(what, "say with --columns which hold the sentences, counted from 1")
            reading = replace(reading, columns=tuple(names))
        return picked(reading, names), names_columns
    except PairsError as error:
        remedy = error.remedy
        if names_columns and reading.header is None and reading.columns is None:
            remedy = f"{remedy}; if its first line is data, pass --no-header"
        raise PairsError(f"{name}: {error.what}", remedy) from None


def separator(first: str, reading: FileReading) -> str:
    """The separator of a CSV file: the one by which the first line has the columns, else several cells."""
    rows = {mark: _split(first, mark) for mark in (",", ";", "\t")}
    for mark, cells in rows.items():
        if len(cells) > 1:
            try:
                picked(reading, cells)
            except PairsError:
                continue
            return mark
    return "," if len(rows[","]) > 1 else max(rows, key=lambda mark: len(rows[mark]))


def _split(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def is_quoted(sample: Sequence[str], width: int | None, separator: str, *, cut: bool) -> bool:
    """Whether lines of a table of so many columns (None: unknown) were written with quotes as CSV has them.

    They are if only so every row has the right number of cells; or, where both ways give that, if quotes within quotes
    are doubled, or everything but numbers is quoted from the first line on. A sample that is `cut` may end within a
    cell.
    """
    if (rows := _as_csv(sample, separator, cut=cut)) is None:
        return False
    first = width is None
    width = len(rows[0]) if width is None and rows else width
    if any(len(row) != width for row in rows):
        return False
    plain = [line.rstrip("\r\n").split(separator) for line in sample if line.strip(" \r\n")]
    if any(len(cells) != width for cells in plain):
        return True
    everything = all(_within_quotes(cell) or _is_number(cell) for cells in plain for cell in cells if cell)
    everything = everything or _as_csv(sample, separator, cut=False, all_quoted=True) is not None
    return any(map(shows_quoting, plain)) or (first and everything)


def _as_csv(sample: Sequence[str], separator: str, *, cut: bool, all_quoted: bool = False) -> list[list[str]] | None:
    """The rows that lines are with quotes as CSV has them, without one that is `cut`; None if they are no CSV.

    With `all_quoted`, they are none either where a cell that is no number has no quotes.
    """
    rows = list[list[str]]()
    reader = csv.reader(
        sample, delimiter=separator, strict=True, quoting=csv.QUOTE_NONNUMERIC if all_quoted else csv.QUOTE_MINIMAL
    )
    try:
        rows.extend(row for row in reader if row)
    except (csv.Error, ValueError):  # ValueError: a cell that has no quotes and is no number
        if not (cut and reader.line_num == len(sample)):
            return None
    return rows


def _goes_over_lines(sample: Sequence[str], width: int | None, separator: str) -> bool:
    """Whether the lines of a table of so many columns would be fewer rows of as many, with line ends within quotes."""
    rows = _as_csv(sample, separator, cut=False) or []
    lines = sum(bool(line.strip(" \r\n")) for line in sample)
    return 0 < len(rows) < lines and all(len(row) == (width or len(rows[0])) for row in rows)


def shows_quoting(cells: Sequence[str]) -> bool:
    """Whether one of the cells has quotes around it, and all quotes within doubled."""
    inner = [cell[1:-1] for cell in cells if _within_quotes(cell)]
    return any('""' in text and '"' not in text.replace('""', "") for text in inner)


def _within_quotes(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _is_data(cells: Sequence[str], reading: FileReading) -> bool:
    """Whether a first row looks like data, as far as that is open: no column is known or asked for by name."""
    if not (chosen := _open_to_doubt(cells, reading)):
        return False
    numbers = [_is_number(cell) for cell in cells]
    return any(map(_is_sentence, chosen)) or (any(numbers) and not all(numbers))


def _open_to_doubt(cells: Sequence[str], reading: FileReading) -> Sequence[str]:
    """The cells of a first row that may be sentences or names of the columns that hold them; none if they are names."""
    if reading.columns is None:
        return [] if len(cells) > 2 or known_among(cells) else cells
    numbers = [number for column in reading.columns if (number := number_of(column)) is not None]
    if len(numbers) < len(reading.columns) or any(column in cells for column in reading.columns):
        return []
    return [cells[number - 1] for number in numbers if number <= len(cells)]


def _is_sentence(cell: str) -> bool:
    words, text = len(cell.split()), cell.rstrip("\"'”’ ")
    ends = text.endswith(("?", "!", "。", "？", "！")) or (words > 1 and text.endswith("."))
    return words >= _WORDS or ends or len(cell) > _LONGEST_NAME


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
