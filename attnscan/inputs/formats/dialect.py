"""Guess how a table was written: separators, quotes, whether its first row names the columns.

A guess that could be wrong is noted, with the option that overrides it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace

from attnscan.errors import PairsError
from attnscan.inputs.columns import FileReading, Picked, known_among, number_of, picked
from attnscan.inputs.formats.row import OnNote

SAMPLE = 1000, 1 << 18
"""Lines and bytes that show whether quotes are the writer's."""

_WORDS = 5  # of a cell that is a sentence, and no name
_LONGEST_NAME = 60


def begun(name: str, cells: Sequence[str], reading: FileReading, note: OnNote) -> tuple[Picked, bool]:
    """Choose the columns to read by the cells of the first row; return also whether that row names the columns.

    Raises: PairsError if the columns are not there.
    """
    names_columns = reading.header
    if names_columns is None:
        names_columns = not _is_data(cells, reading)
        if not names_columns:
            note(f"{name}: its first line is read as data, by its looks (--header if it names the columns)")
        elif any(" " in cell.strip() for cell in _open_to_doubt(cells, reading)):
            note(f"{name}: its first line is taken for the columns' names (--no-header if it is data)")
    try:
        if names_columns:
            return picked(reading, cells, True), True
        return _numbered(len(cells), reading), False
    except PairsError as error:
        remedy = error.remedy
        if names_columns and reading.header is None and reading.columns is None:
            remedy = f"{remedy}; if its first line is data, pass --no-header"
        raise PairsError(f"{name}: {error.what}", remedy) from None


def _numbered(count: int, reading: FileReading) -> Picked:
    """Choose the columns of a table without names. Raises: PairsError."""
    if reading.columns is None:
        if count > 2:
            raise PairsError(
                f"it has {count} columns without names", "say with --columns which hold the sentences, counted from 1"
            )
        reading = replace(reading, columns=tuple(str(number) for number in range(1, count + 1)))
    return picked(reading, [str(number) for number in range(1, count + 1)], True)


def separator(first: str, reading: FileReading) -> str:
    """The separator of a CSV file: the one by which the first line has the columns, else several cells."""
    rows = {mark: _split(first, mark) for mark in (",", ";", "\t")}
    for mark, cells in rows.items():
        if len(cells) > 1:
            try:
                picked(reading, cells, True)
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
    rows, reader = list[list[str]](), csv.reader(sample, delimiter=separator, strict=True)
    try:
        rows.extend(row for row in reader if row)
    except csv.Error:
        if not (cut and reader.line_num == len(sample)):
            return False
    first = width is None
    width = len(rows[0]) if width is None and rows else width
    if any(len(row) != width for row in rows):
        return False
    plain = [line.rstrip("\r\n").split(separator) for line in sample if line.strip(" \r\n")]
    if any(len(cells) != width for cells in plain):
        return True
    everything = all(_within_quotes(cell) or _is_number(cell) for cells in plain for cell in cells if cell)
    return any(map(shows_quoting, plain)) or (first and everything)


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
