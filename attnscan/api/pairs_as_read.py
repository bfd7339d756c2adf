"""What `import attnscan` offers to see how files of pairs are read: `pairs`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from attnscan.api.option_groups import File
from attnscan.api.signatures import library_function
from attnscan.errors import InputError
from attnscan.inputs.option import Option, declared
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading, Quoting
from attnscan.inputs.report import FileReport, collect_reports
from attnscan.inputs.sentence import EncodedInput, Pair, Record
from attnscan.results.lazy import pd
from attnscan.results.schemas import Column, Table
from attnscan.scan.options import OnProgress, ScanOptions

_AT_ONCE = 256  # pairs that are tokenized together
_READING = declared(FileReading)
_FILES = Option(
    "Files to read: CSV, TSV, JSON, Parquet, Arrow or Excel; - is stdin.",
    metavar="FILE",
    is_argument=True,
    is_required=True,
    repeats=True,
)
_MODEL = declared(ScanOptions)["model"].option


PAIRS_TABLE = Table(
    "pairs",
    "a pair, as it is read",
    (
        Column("file", "the file", "text", is_key=True),
        Column("row", "the record in the file, from 1", "integer", is_key=True),
        Column("id", "the cell of the column that --id names", "text", is_optional=True),
        Column("sentence_a", "sentence A", "text", is_key=True),
        Column("sentence_b", "sentence B, if there is one", "text"),
    ),
    is_signed=False,
)


@library_function()
def pairs(  # noqa: PLR0913  # a user of the library names them
    files: Annotated[File | Sequence[File], _FILES],
    *,
    columns: Annotated[str | int | Sequence[str | int] | None, _READING["columns"].option] = None,
    header: Annotated[bool | None, _READING["header"].option] = None,
    quoting: Annotated[Quoting, _READING["quoting"].option] = "auto",
    encoding: Annotated[str | None, _READING["encoding"].option] = None,
    id: Annotated[str | int | None, _READING["id"].option] = None,
    model: Annotated[Any, _MODEL] = None,
    progress: OnProgress | None = None,
) -> pd.DataFrame:
    """The pairs of files as attnscan reads them, a row each, before they are scored.

    The columns are `file`, `row` (counted from 1 in its file), `id` if that is asked for,
    `sentence_a` and `sentence_b`. The frame's `attrs` hold `files` (of each its format, encoding,
    separator and columns, why these, and what was guessed), `bad` (each bad record, with its line)
    and, with a `model`, how many inputs are `cut` to the `longest` that it reads.

    Raises: PairsError for a file that cannot be read; OptionError; with a model, ModelError.
    """
    reading = FileReading(
        columns=_column_names(columns),
        header=header,
        quoting=quoting,
        encoding=encoding,
        id=None if id is None else str(id),
    )
    several = [files] if isinstance(files, str | os.PathLike) else files
    names = [os.fspath(file) for file in several]
    bad: list[InputError] = []
    with collect_reports() as reports:
        records = list(read_pairs(names, reading, bad.append))
    frame = _frame(records, has_ids=id is not None)
    frame.attrs["schema"] = PAIRS_TABLE.id
    frame.attrs["files"] = _summaries(reports, records)
    frame.attrs["bad"] = [error.what for error in bad]
    if model is not None:
        frame.attrs |= _cuts(records, model, progress)
    return frame


def _column_names(columns: Any) -> tuple[str, ...] | None:
    if columns is None:
        return None
    several = [columns] if isinstance(columns, str | int) else columns
    return tuple(str(column) for column in several)


def _frame(records: Sequence[Record], *, has_ids: bool) -> pd.DataFrame:
    cells: dict[str, list[Any]] = {
        "file": [record.place.file for record in records],
        "row": [record.place.row for record in records],
    }
    if has_ids:
        cells["id"] = [record.place.id for record in records]
    cells["sentence_a"] = [record.pair.a for record in records]
    cells["sentence_b"] = [record.pair.b for record in records]
    return pd.DataFrame(cells)


def _summaries(reports: Sequence[FileReport], records: Sequence[Record]) -> list[dict[str, Any]]:
    """What is known of each file, and how many of its records are good."""
    summaries = []
    for report in reports:
        about = asdict(report)
        del about["on_note"]
        about["columns"] = list(report.columns)
        about["records"] = sum(record.place.file == report.file for record in records)
        summaries.append(about)
    return summaries


def _cuts(
    records: Sequence[Record], model: Any, progress: OnProgress | None
) -> dict[str, int | str]:
    """How many inputs a model cuts, and how many tokens it reads at most."""
    from attnscan.api.many_pairs import load

    loaded = load(model)
    remaining = iter(record.pair for record in records)
    n_cut = 0
    while some := list(islice(remaining, _AT_ONCE)):
        n_cut += _count_cut(loaded, some)
        if progress is not None:
            progress("tokenizing", None, None)
    return {"cut": n_cut, "longest": loaded.limit, "model": loaded.source.name}


def _count_cut(loaded: Any, some: Sequence[Pair]) -> int:
    encoded = loaded.encode_all(some, "token", truncate=True)
    return sum(isinstance(each, EncodedInput) and each.truncated for each in encoded)
