"""JSON lines and JSON documents -> records with where they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from attnscan.errors import PairsError
from attnscan.inputs.records import FileReading, known_among, pick_columns, quoted_names
from attnscan.inputs.report import FileReport
from attnscan.inputs.sentence import bad_record

_SPLIT_KEYS = {"columns", "index", "data", "index_names", "column_names"}
"""What an object has whose columns' names and rows stand apart, as pandas' `orient="split"`."""


def json_records(
    lines: Iterable[str], suffix: str, reading: FileReading, report: FileReport
) -> Iterator[tuple[str, Any]]:
    """The records of JSON lines, or of a document, with where they are."""
    name = report.file
    if suffix != ".json":
        yield from _line_records(lines, name)
        return
    text = "".join(lines)
    document = parse_json(text if text.strip() else "[]", name)
    if not isinstance(document, PairsError):
        for number, record in enumerate(_records_in(document, name, reading), 1):
            yield f"{name}: record {number}", record
    elif "Extra data" in document.what:  # JSON lines, as pandas and `datasets` call them
        yield from _line_records(io.StringIO(text, newline="\n"), name)
    else:
        raise PairsError(document.what, "it must hold a list of records")


def _line_records(lines: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{name}:{number}"
            yield where, parse_json(line, where)


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text, or a PairsError if it is not valid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of more than 4,300 digits
        return bad_record(where, f"is not valid JSON: {str(error).partition(';')[0]}")


def _records_in(document: Any, name: str, reading: FileReading) -> list[Any]:
    """The records of a document, in any of the layouts that pandas writes, or `datasets`.

    They are a list's items; an object's columns as rows, or its rows by their names; or its only
    list; or the document itself. Raises: PairsError if they may be columns or rows.
    """
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        return [document]
    if {"columns", "data"} <= document.keys() <= _SPLIT_KEYS:
        names = document["columns"]
        return [_named_cells(names, row, name) for row in document["data"]]
    columns = list(document.values())
    lists = [column for column in columns if isinstance(column, list)]
    if columns and all(isinstance(column, dict) for column in columns):
        return _records_of_objects(document, name, reading)
    if len(lists) == 1 and all(isinstance(row, dict) for row in lists[0]):
        return lists[0]
    if lists and len(lists) == len(columns) and len(set(map(len, lists))) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True)]
    return [document]


def _named_cells(names: Any, row: Any, name: str) -> Any:
    """A row of a document whose columns stand apart."""
    if not isinstance(names, list) or not isinstance(row, list) or len(names) != len(row):
        raise PairsError(
            f"{name}: its columns are {names!r:.60}, and a row is {row!r:.60}",
            "write a list of records",
        )
    return dict(zip(map(str, names), row, strict=True))


def _records_of_objects(
    document: dict[str, dict[str, Any]], name: str, reading: FileReading
) -> list[Any]:
    """The records of an object of objects: columns whose cells have keys, or records by their ids.

    The names of the columns that are read tell which of the two it is.
    """
    rows = list(document.values())
    cell_names = list(dict.fromkeys(chain.from_iterable(rows)))
    if _leads_into_cells(list(document), reading):
        return [document]
    has_columns = _has_sentences(list(document), reading)
    has_rows = _has_sentences(cell_names, reading)
    if has_columns and has_rows:
        raise PairsError(
            f"{name}: columns to read are among the names of its objects and of what is in them",
            "write it as a list of records, or name the columns with ``columns``",
        )
    if has_rows:
        return rows
    if has_columns:
        return [_row(document, key) for key in cell_names]
    outer = quoted_names(list(document))
    raise PairsError(
        f"{name}: its objects are {outer}, what is in them is {quoted_names(cell_names)}, "
        "and none is known to hold sentences",
        "name one or two of them with ``columns``",
    )


def _leads_into_cells(names: Sequence[str], reading: FileReading) -> bool:
    """Whether a column is a path from one of these names: then the document is one record."""
    if reading.columns is None:
        return False
    try:
        columns = pick_columns(reading, names).sentences
    except PairsError:
        return False
    return any(len(column) > 1 for column in columns)


def _has_sentences(names: Sequence[str], reading: FileReading) -> bool:
    """Whether the columns to read are among these names."""
    if reading.columns is None:
        return known_among(names) is not None
    try:
        pick_columns(reading, names)
    except PairsError:
        return False
    return True


def _row(document: dict[str, dict[str, Any]], key: str) -> dict[str, Any]:
    """A row of columns that are joined by their keys."""
    return {name: cells.get(key) for name, cells in document.items()}
