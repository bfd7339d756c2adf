"""A row as a format finds it, before it is a pair; how large it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from attnscan.errors import PairsError
from attnscan.inputs.columns import Picked, Reading, picked

MAX_BYTES = 16 << 20
"""The largest row that is read, and so the most that is held of a file."""

OnNote = Callable[[str], None]
"""What is told of how a file is read, where its looks decided."""


class Found(NamedTuple):
    """One row."""

    where: str
    number: int
    """Which of the file's rows it is, from 1, as its format counts: bad ones are counted."""
    columns: Picked
    cells: Any
    """What has the cells of these columns, by their places."""


FoundRows = Iterator[Found | PairsError]


def bad_record(where: str, why: str) -> PairsError:
    """The error for one record, which can be left out."""
    return PairsError(f"{where}: {why}", "correct it, or pass --skip-bad to go on without it")


def picked_in(name: str, reading: Reading, names: Sequence[str]) -> Picked:
    """The columns of a file in which all rows have the same. Raises: PairsError that names the file."""
    try:
        return picked(reading, names, True)
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None
