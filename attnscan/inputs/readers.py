"""Streams of bytes -> rows, one at a time, whatever their format.

A stream may be of any length: its rows are streamed, and each is bounded in size. What is wrong with
one row is an item among the rows, which the caller may raise or count; what is wrong with the whole
is raised. Streams are not trusted, and nothing is unpickled.
Does not handle: other encodings than UTF-8, lone carriage returns as line ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

from attnscan.errors import PairsError
from attnscan.inputs.columns import Reading
from attnscan.inputs.formats.delimited import csv_rows, first_line, text_rows, tsv_rows
from attnscan.inputs.formats.found import FoundRows, OnNote
from attnscan.inputs.formats.json_records import are_lines, document_rows, line_rows
from attnscan.inputs.formats.lines import Lines
from attnscan.inputs.formats.part import WHOLE, Bookmark, Part
from attnscan.inputs.places.names import ARROW, PARQUET, SHEETS


class Row(NamedTuple):
    """The cells that were asked for, as they are in the file, and where they were read."""

    where: str
    file: str
    number: int
    """Which of the file's rows it is, from 1, bad ones counted."""
    sentences: tuple[object, ...]
    id: object = None
    label: object = None


def rows(
    stream: IO[bytes],
    name: str,
    suffix: str,
    reading: Reading,
    note: OnNote = lambda _: None,
    part: Part = WHOLE,
) -> Iterator[Row | PairsError]:
    """The rows of a stream, a PairsError in the place of each bad one; without a suffix, it is sniffed.

    `note` is told how the stream is read, where its looks decided and might mislead. A `part` is one of `parts.py`.
    Raises: PairsError if the stream cannot be read on, or has not the columns; OSError, EOFError, zlib.error.
    """
    for found in _found(stream, name, suffix, reading, note, part):
        if isinstance(found, PairsError):
            yield found
        else:
            where, number, columns, cells = found
            sentences = tuple([each.within(cells[each.index]) for each in columns.sentences])
            key, label = columns.id, columns.label
            yield Row(
                where,
                name,
                number,
                sentences,
                None if key is None else key.within(cells[key.index]),
                None if label is None else label.within(cells[label.index]),
            )


def end_of(stream: IO[bytes], name: str, suffix: str, reading: Reading, part: Part) -> Bookmark:
    """Where the rows of a part of a text end. Raises: as `rows`."""
    lines = Lines(stream, name, part)
    for _ in _in_lines(lines, suffix, reading, lambda _: None):
        pass
    return lines.bookmark


def _found(stream: IO[bytes], name: str, suffix: str, reading: Reading, note: OnNote, part: Part) -> FoundRows:
    if suffix in (*PARQUET, *ARROW, *SHEETS):
        return _binary(stream, name, suffix, reading, note, part)
    return _in_lines(Lines(stream, name, part), suffix, reading, note)


def _in_lines(lines: Lines, suffix: str, reading: Reading, note: OnNote) -> FoundRows:
    match suffix or _sniffed(lines):
        case ".csv":
            return csv_rows(lines, reading, note)
        case ".tsv":
            return tsv_rows(lines, reading, note)
        case ".txt":
            return text_rows(lines, reading, note)
        case ".json":
            return (line_rows if are_lines(lines) else document_rows)(lines, reading)
        case _:
            return line_rows(lines, reading)


def _binary(stream: IO[bytes], name: str, suffix: str, reading: Reading, note: OnNote, part: Part) -> FoundRows:
    if suffix in SHEETS:
        from attnscan.inputs.formats.workbook import xlsx_rows

        return xlsx_rows(stream, name, reading, note)
    from attnscan.inputs.formats.columnar import arrow_rows, parquet_rows

    return parquet_rows(stream, name, reading, part) if suffix in PARQUET else arrow_rows(stream, name, reading)


def _sniffed(lines: Lines) -> str:
    first = first_line(lines).lstrip()
    if first[:1] in ("{", "["):
        return ".json" if first[:1] == "[" or first.strip() == "{" else ".jsonl"
    return ".tsv" if "\t" in first else ".csv"
