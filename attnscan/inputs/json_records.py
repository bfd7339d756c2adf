"""JSON lines and JSON documents -> records with where they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from attnscan.errors import PairsError
from attnscan.inputs.sentence import bad_record


def json_records(lines: Iterable[str], name: str, suffix: str) -> Iterator[tuple[str, Any]]:
    """The records of JSON lines, or of a document, with where they are."""
    if suffix != ".json":
        yield from _line_records(lines, name)
        return
    text = "".join(lines)
    document = _parse(text if text.strip() else "[]", name)
    if not isinstance(document, PairsError):
        for number, record in enumerate(_records_in(document), 1):
            yield f"{name}: record {number}", record
    elif "Extra data" in document.what:  # JSON lines, as pandas and `datasets` call them
        yield from _line_records(io.StringIO(text, newline="\n"), name)
    else:
        raise PairsError(document.what, "it must hold a list of records")


def _line_records(lines: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{name}:{number}"
            yield where, _parse(line, where)


def _parse(text: str, where: str) -> Any:
    """The value of a JSON text, or a PairsError if it is not valid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of more than 4,300 digits
        return bad_record(where, f"is not valid JSON: {str(error).partition(';')[0]}")


def _records_in(document: Any) -> list[Any]:
    """A list's items; an object's columns as rows, or its only list; or the document itself."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        return [document]
    columns = list(document.values())
    lists = [column for column in columns if isinstance(column, list)]
    if len(columns) > 1 and all(isinstance(column, dict) for column in columns):
        keys = dict.fromkeys(chain.from_iterable(columns))
        return [_row(document, key) for key in keys]
    if len(lists) == 1 and all(isinstance(row, dict) for row in lists[0]):
        return lists[0]
    if lists and len(lists) == len(columns) and len(set(map(len, lists))) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True)]
    return [document]


def _row(document: dict[str, dict[str, Any]], key: str) -> dict[str, Any]:
    """A row of columns that are joined by their keys."""
    return {name: cells.get(key) for name, cells in document.items()}
