"""CSV and TSV -> rows of cells -> records. A guess that could be wrong is noted, with its option.

A guess is which separator the cells have, whether quotes are the format's or the text's, and
whether the first line names the columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal

from attnscan.errors import PairsError
from attnscan.inputs.records import Columns, FileReading, Rows, known_among, pick_columns
from attnscan.inputs.report import FileReport
from attnscan.inputs.sentence import bad_record

Cells = Iterator[tuple[str, Sequence[Any]] | PairsError | None]
"""Where a row starts, and its cells; None of a blank one."""
_SAMPLE = 10_000  # lines that show whether quotes are the writer's
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?\s*', re.IGNORECASE)
"""A line before the names of columns, by which Excel is told the separator."""
_SENTENCE = re.compile(r"(\S+\s+){4}\S|[?!。？！]\W*$|\s\S+\.\W*$")  # five words, or a final stop
csv.field_size_limit(16 << 20)  # an open quote must not take the whole file


def delimited_rows(
    lines: Iterator[str], suffix: str, first: str, reading: FileReading, report: FileReport
) -> Rows:
    """The records of CSV or TSV; `first` is its first line that is not blank."""
    return table_rows(_cells_of(lines, suffix, first, reading, report), reading, report)


def _cells_of(
    lines: Iterator[str], suffix: str, first: str, reading: FileReading, report: FileReport
) -> Cells:
    """The cells of CSV, which semicolons or tabs may separate as well, or of TSV."""
    told = _SEPARATOR_LINE.fullmatch(first.strip("\r\n"))
    if told:
        separator = told[1]
        lines = _blank_out(lines, first)
    elif suffix == ".tsv":
        separator = "\t"
    else:
        separator = _separator(first)
        if separator != ",":
            report.note(f"its columns are read as separated by {_SEPARATORS[separator]}")
    report.separator = separator
    if reading.quoting != "auto" or suffix == ".csv":
        report.has_quotes = reading.quoting != "none"
        return _cells(lines, report.file, separator, is_quoted=report.has_quotes)
    sample = list(islice(lines, _SAMPLE))
    is_quoted = any('"' in line for line in sample) and _is_quoted(sample, separator)
    if is_quoted:
        quotes = "its cells are quoted, and are read so"
        report.note(f"{quotes} (--quoting none if the quotes are text)")
    elif is_quoted is None:
        report.note("quotes around cells are read as text (--quoting csv if they are not)")
    report.has_quotes = bool(is_quoted)
    return _cells(chain(sample, lines), report.file, separator, is_quoted=report.has_quotes)


def _blank_out(lines: Iterator[str], first: str) -> Iterator[str]:
    """The lines with a blank one in the place of the first, so that numbers of lines stay."""
    for line in lines:
        if line == first:
            yield "\n"
            break
        yield line
    yield from lines


def _separator(first: str) -> str:
    """The separator by which the first line has known columns, else by which it has most cells."""

    def fitness(separator: str) -> tuple[bool, int]:
        cells = next(csv.reader([first.replace("\r", " ")], delimiter=separator), [])
        return known_among(cells) is not None, len(cells)

    return max(_SEPARATORS, key=fitness)


def table_rows(table: Cells, reading: FileReading, report: FileReport) -> Rows:
    """The rows of a table, whose first may name the columns."""
    start = next(table, None)
    if start is None or isinstance(start, PairsError):
        what = start.what if start else f"{report.file} is empty"
        raise PairsError(what, "its first line must name the columns")
    first = ["" if cell is None else str(cell) for cell in start[1]]
    columns, has_names = _begin_table(first, reading, report)
    columns.describe(report)
    report.first_line = "names" if has_names else "data"
    width = len(first) if has_names else 1 + max(columns.places)
    rows = table if has_names else chain([start], table)
    for number, row in enumerate(rows, 1):
        if row is None:
            continue
        if isinstance(row, PairsError):
            yield row
            continue
        where, cells = row
        has_all = len(cells) == width or (len(cells) > width and not has_names)
        if has_all:
            yield columns.record(where, report.file, number, cells)
        else:
            yield bad_record(
                where, f"its number of fields is {len(cells)}, where {width} are expected"
            )


def _begin_table(
    cells: Sequence[str], reading: FileReading, report: FileReport
) -> tuple[Columns, bool]:
    """Choose the columns to read by the first row; return also whether that row names them."""
    numbers = [str(number) for number in range(1, len(cells) + 1)]
    has_names = reading.header
    if has_names is None:
        has_names = _first_row_is_names(cells, numbers, reading, report)
    try:
        return pick_columns(reading, cells if has_names else numbers), has_names
    except PairsError as error:
        hint = "; if its first line is data, pass ``header=False``" if has_names else ""
        raise PairsError(error.what, f"{error.remedy}{hint}") from None


def _first_row_is_names(
    cells: Sequence[str], numbers: Sequence[str], reading: FileReading, report: FileReport
) -> bool:
    """Whether cells in the place of sentences look like names of columns."""
    if reading.columns:
        wanted: Sequence[str] = reading.columns
    else:
        has_known_names = known_among(cells) is not None
        wanted = [] if has_known_names or len(cells) > 2 else numbers
    by_number = [column for column in wanted if column in numbers and column not in cells]
    doubtful = [cells[int(column) - 1] for column in by_number]
    is_asked = reading.columns is not None
    if any(map(_SENTENCE.search, doubtful)):
        looks = "its first line looks like data, and is read as data"
        report.note(f"{looks} (--header if it names the columns)")
        return False
    if any(" " in cell.strip() or not is_asked for cell in doubtful):
        looks = "its first line looks like names of columns, and is read as such"
        report.note(f"{looks} (--no-header if it is data)")
    return True


def _cells(lines: Iterable[str], name: str, separator: str, *, is_quoted: bool) -> Cells:
    """The cells of each row; one that is not valid costs the lines up to where csv gives it up.

    Where quotes are the format's, spaces before a cell are not the text's.
    """
    # GLUE's quotes are text
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    reader = csv.reader(
        lines, delimiter=separator, quoting=quoting, skipinitialspace=is_quoted, strict=True
    )
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
            if len(cells) > 1 or "".join(cells).strip():
                yield f"{name}:{number}", cells
        except StopIteration:
            return
        except csv.Error as error:
            lines_lost = f" (up to line {reader.line_num})" if reader.line_num > number else ""
            reason = str(error).partition(" - ")[0]
            yield PairsError(
                f"{name}:{number}: is not valid CSV: {reason}{lines_lost}",
                "correct it, pass ``quoting=none`` if its quotes are text, "
                "or ``skip_bad`` to skip it",
            )


def _is_quoted(sample: Sequence[str], separator: str) -> bool | None:
    """Whether a table was written with quotes as CSV has them; None if that is open.

    It was if it is whole only so, or if quotes are doubled.
    """
    plain = _sample_cells(sample, separator, is_quoted=False)
    quoted = _sample_cells(sample, separator, is_quoted=True)
    widths = {len(cells) for cells in plain}
    widths_quoted = {len(cells) for cells in quoted}
    if quoted == plain or len(widths_quoted) > 1 or widths_quoted == {0}:
        return False
    cells = list(chain.from_iterable(plain))
    has_doubled = any(re.fullmatch('"([^"]|"")*""([^"]|"")*"', cell) for cell in cells)
    first_is_quoted = all(cell[:1] == '"' for cell in cells[: max(widths)])
    return has_doubled or len(widths) > 1 or first_is_quoted or None


def _sample_cells(sample: Sequence[str], separator: str, *, is_quoted: bool) -> list[Sequence[Any]]:
    """The cells of some lines; none of a row that is not valid."""
    rows = _cells(sample, "", separator, is_quoted=is_quoted)
    return [row[1] if isinstance(row, tuple) else [] for row in rows]
