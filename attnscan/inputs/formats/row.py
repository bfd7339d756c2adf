"""The row that every format yields, before it becomes a pair, and its largest size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from attnscan.errors import PairsError
from attnscan.inputs.columns import FileReading, Picked, picked

MAX_BYTES = 16 << 20
"""The largest row that is read, and so the most that is held of a text."""

OnNote = Callable[[str], None]
"""Is told how a file is read where its looks decided."""


class Row(NamedTuple):
    """The cells of the picked columns, and where they are."""

    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`; both counted from 1."""
    number: int
    """Which of the file's rows it is, from 1, bad ones counted."""
    sentences: tuple[object, ...]
    id: object = None
    label: object = None


Rows = Iterator[Row | PairsError]
"""The rows of a file, and a PairsError in the place of each bad one."""


def row_of(where: str, number: int, columns: Picked, cells: Sequence[object] | Mapping[int, object]) -> Row:
    """Make a row of the picked columns; `cells` are those of the file's row, by index."""
    return Row(
        where,
        number,
        tuple([column.within(cells[column.index]) for column in columns.sentences]),
        None if columns.id is None else columns.id.within(cells[columns.id.index]),
        None if columns.label is None else columns.label.within(cells[columns.label.index]),
    )


def bad_record(where: str, why: str) -> PairsError:
    """The error for a record that `--skip-bad` would skip."""
    return PairsError(f"{where}: {why}", "correct it, or pass --skip-bad to go on without it")


def picked_in(name: str, reading: FileReading, names: Sequence[str]) -> Picked:
    """Choose the columns of a file whose rows have the same columns. Raises: PairsError that names the file."""
    try:
        return picked(reading, names, True)
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None
