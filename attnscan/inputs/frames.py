"""Data frames of any library and dicts of lists -> the names of their columns, and their rows.

No library is imported but pyarrow, for what hands its columns over as Arrow: frames are told by what they offer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple

from attnscan.errors import InputError, needs


class Frame(NamedTuple):
    """Rows that have the same columns."""

    names: tuple[str, ...]
    rows: Callable[[Sequence[int]], Iterable[Sequence[object]]]
    """The cells of some columns, by their places from 0, row by row."""
    total: int | None = None
    """How many rows there are, if that is known without reading them."""


def frame_of(thing: Any) -> Frame | None:
    """A data frame of any library, told by what it offers; None for all else, as for a stream of them."""
    if isinstance(thing, type | Iterator) or is_lazy(thing):
        return None
    if hasattr(thing, "iloc") and hasattr(thing, "columns"):  # pandas, and what is like it
        names = tuple(map(str, thing.columns))
        return Frame(names, lambda at: zip(*(thing.iloc[:, i] for i in at), strict=True), len(thing))
    if hasattr(thing, "schema") and (hasattr(thing, "to_batches") or hasattr(thing, "to_pydict")):  # Arrow
        names, total = tuple(thing.schema.names), getattr(thing, "num_rows", None)
    elif hasattr(thing, "columns") and hasattr(thing, "__arrow_c_stream__"):  # polars, DuckDB and others
        names, total = tuple(thing.columns), len(thing) if hasattr(thing, "__len__") else None
    else:
        return None
    return Frame(names, lambda at: _arrow_rows(thing, at), total)


def is_lazy(thing: object) -> bool:
    """Whether its rows are not there yet: of Dask, Spark or polars."""
    return hasattr(thing, "compute") or hasattr(thing, "collect")


def _arrow_rows(thing: Any, at: Sequence[int]) -> Iterator[Sequence[object]]:
    if hasattr(thing, "scanner"):  # a data set of files, which reads no other column than these
        batches = thing.to_batches(columns=[thing.schema.names[i] for i in at])
        at = range(len(at))
    elif hasattr(thing, "to_batches"):
        batches = thing.to_batches()
    elif hasattr(thing, "to_pydict"):
        batches = [thing]
    else:
        with needs(f"reading a {type(thing).__name__} needs pyarrow", "parquet", InputError):
            import pyarrow as pa
        batches = pa.RecordBatchReader.from_stream(thing)
    for batch in batches:
        yield from zip(*(batch.column(i).to_pylist() for i in at), strict=True)


def frame_of_columns(columns: Mapping[Any, Any]) -> Frame:
    """The frame of a dict of lists. Raises: InputError."""
    names, values, kind = tuple(map(str, columns)), list(columns.values()), type(columns).__name__
    if any(hasattr(value, "select_columns") for value in values):
        raise InputError(f"pairs is of the class {kind}, which holds splits", f"choose one: [{next(iter(columns))!r}]")
    lengths = [len(value) for value in values if is_column(value)]
    if not lengths:
        what = f"pairs is of the class {kind}, and none of its values is a list"
        raise InputError(what, "give a list of dicts, or a dict of lists")
    return Frame(names, lambda at: together([names[i] for i in at], [values[i] for i in at], "pairs"), lengths[0])


def together(names: Sequence[str], columns: Sequence[Any], where: str) -> Iterator[Sequence[object]]:
    """The rows of some columns. Raises: InputError if they are none, or are not of one length."""
    for name, column in zip(names, columns, strict=True):
        if not is_column(column):
            what = f"{where}: column {name!r} is of the class {type(column).__name__}, and no list"
            raise InputError(what, "give a list of texts")
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        told = ", ".join(f"{name!r} has {length}" for name, length in zip(names, lengths, strict=True))
        raise InputError(f"{where}: columns are not of one length: {told}", "give each row a cell in every column")
    return zip(*columns, strict=True)


def is_column(value: object) -> bool:
    """Whether a value has many cells: a list, a tuple, an array, a Series."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1:
        return False
    return isinstance(value, Iterable) and isinstance(value, Sized) and frame_of(value) is None


def plain(item: Any) -> Any:
    """A scalar of Arrow, an array of texts, or a row of pandas, as objects of Python."""
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    if getattr(item, "ndim", 0) == 1 and getattr(item.dtype, "kind", "") in ("O", "U", "T"):
        return item.tolist()
    return item
