"""Tables of any library -> names and rows: pandas, polars, Arrow, dicts of columns.

No library is imported: tables are told by what they offer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from attnscan.errors import InputError

Cells = Sequence[object]


@dataclass(frozen=True)
class Table:
    """Rows that have the same columns."""

    names: tuple[str, ...]
    rows: Callable[[Sequence[int]], Iterable[Cells]]
    """The cells of some columns, by their places from 0, row by row."""
    total: int | None = None
    """How many rows there are, if that is known without reading them."""


def table_in(thing: Any) -> Table | None:
    """The table that an object of some library is; None if it is no table."""
    if hasattr(thing, "compute") or isinstance(thing, type):  # of Dask: its rows are not there yet
        return None
    if hasattr(thing, "iloc") and hasattr(thing, "columns"):  # pandas, and what is like it
        names = tuple(map(str, thing.columns))
        return Table(names, lambda at: zip(*(thing.iloc[:, i] for i in at), strict=True), len(thing))
    if hasattr(thing, "iter_rows") and hasattr(thing, "get_columns"):  # polars
        return Table(tuple(thing.columns), lambda at: zip(*(thing.to_series(i) for i in at), strict=True), len(thing))
    if hasattr(thing, "schema") and hasattr(thing, "to_batches"):  # a table or data set of Arrow
        total = getattr(thing, "num_rows", None)
        return Table(tuple(thing.schema.names), lambda at: _arrow_rows(thing, at), total)
    if hasattr(thing, "schema") and hasattr(thing, "to_pydict"):  # a batch of Arrow
        return Table(tuple(thing.schema.names), lambda at: _batch_rows(thing, at), len(thing))
    return None


def of_columns(columns: Iterable[tuple[str, Any]], where: str) -> Table:
    """The table of some columns with their names. Of what is no column, such as a number, an error tells if it is read.

    Raises: InputError, when rows are asked for, if columns are none or are not of one length.
    """
    names, values = zip(*columns, strict=True)

    def rows(at: Sequence[int]) -> Iterator[Cells]:
        picked = [values[i] for i in at]
        for i, column in zip(at, picked, strict=True):
            if not is_column(column):
                kind = type(column).__name__
                raise InputError(
                    f"{where}: column {names[i]!r} is of the class {kind}, and no list", "give a list of texts"
                )
        lengths = [len(column) for column in picked]
        if len(set(lengths)) > 1:
            told = ", ".join(f"{names[i]!r} has {length}" for i, length in zip(at, lengths, strict=True))
            raise InputError(f"{where}: columns are not of one length: {told}", "give each row a cell in every column")
        return zip(*picked, strict=True)

    total = next((len(value) for value in values if is_column(value)), None)
    return Table(names, rows, total)


def is_column(value: object) -> bool:
    """Whether a value has many cells: a list, a tuple, an array, a Series."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1:
        return False
    return isinstance(value, Iterable) and isinstance(value, Sized) and table_in(value) is None


def _arrow_rows(table: Any, at: Sequence[int]) -> Iterator[Cells]:
    if hasattr(table, "column"):
        for batch in table.to_batches():
            yield from _batch_rows(batch, at)
    else:  # a data set, which reads no other column than these
        for batch in table.to_batches(columns=[table.schema.names[i] for i in at]):
            yield from _batch_rows(batch, range(len(at)))


def _batch_rows(batch: Any, at: Sequence[int]) -> Iterator[Cells]:
    return zip(*(batch.column(i).to_pylist() for i in at), strict=True)
