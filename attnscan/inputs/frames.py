"""Objects of Python -> records: texts, pairs, dicts, named tuples, data frames, data sets, and streams of these."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any

from attnscan.errors import InputError, needs
from attnscan.inputs.read import FileReading, Rows, good_records, pick_columns, records_of
from attnscan.inputs.sentence import Record


@dataclass(frozen=True)
class Objects:
    """Pairs that a program holds, of a kind that can be read, and how they are read."""

    items: Iterable[Any]
    reading: FileReading
    total: int | None
    """How many pairs there are, if that is known without reading them."""

    def records(self, on_bad: Callable[[InputError], None] | None = None) -> Iterator[Record]:
        """Read the pairs; their places count from 1. A bad pair is raised, or handed to `on_bad` and skipped."""
        items = iter(self.items)
        first = list(islice(items, 1))
        if any(map(_is_frame, first)):
            return good_records(_frame_rows(chain(first, items), self.reading), on_bad)
        rows = ((f"row {number}", _plain(item)) for number, item in enumerate(chain(first, items), 1))
        return good_records(records_of(rows, "", self.reading), on_bad)


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs. Raises: InputError, PairsError."""
    kind = f"pairs is of the class {type(pairs).__name__}, which holds"
    if isinstance(pairs, Mapping):
        import pandas as pd

        if any(hasattr(value, "select_columns") for value in pairs.values()):
            raise InputError(f"{kind} splits", f"choose one: [{next(iter(pairs))!r}]")
        try:
            pairs = pd.DataFrame(dict(pairs), dtype=object)
        except (TypeError, ValueError) as error:
            raise InputError(f"{kind} no table: {error}", "give a list of dicts, or a dict of lists") from None
    if hasattr(pairs, "read_all"):  # a reader of Arrow, as DuckDB gives
        pairs = pairs.read_all()
    if _is_frame(pairs):
        names, cells = _columns_of(pairs)
        pick_columns(reading, names)
        return Objects([pairs], reading, len(cells[0]))
    is_lazy = getattr(pairs, "batch_sampler", None) or hasattr(pairs, "compute")  # torch's loaders, Dask
    is_scalar = isinstance(pairs, str | bytes | type | io.IOBase | os.PathLike) or not isinstance(pairs, Iterable)
    if is_lazy or is_scalar or getattr(pairs, "ndim", 1) not in (1, 2):
        raise InputError(f"{kind} no pairs", "give a list of texts or of (text, text), a data frame, or a file's path")
    if hasattr(pairs, "select_columns") and pairs.column_names:  # a data set of Hugging Face: so no image is decoded
        places = pick_columns(reading, pairs.column_names).places
        pairs = pairs.select_columns([pairs.column_names[place] for place in places])
    return Objects(pairs, reading, len(pairs) if isinstance(pairs, Sized) else None)


def _is_frame(item: Any) -> bool:
    """Whether it is a data frame: of pandas, or of a library that hands its columns over as Arrow."""
    is_frame = hasattr(item, "iloc") or hasattr(item, "__arrow_c_stream__")
    return is_frame and (hasattr(item, "columns") or hasattr(item, "schema")) and not hasattr(item, "compute")


def _columns_of(frame: Any) -> tuple[list[str], Sequence[Any]]:
    """The names of a data frame's columns, and their cells."""
    if hasattr(frame, "iloc"):
        return list(map(str, frame.columns)), [frame.iloc[:, place] for place in range(len(frame.columns))]
    with needs(f"reading a {type(frame).__name__} needs pyarrow", "parquet", InputError):
        import pyarrow as pa
    table = pa.table(frame)
    return table.column_names, table.columns


def _frame_rows(frames: Iterable[Any], reading: FileReading) -> Rows:
    """The records of data frames, one frame after the other."""
    numbers = count(1)
    for names, cells in map(_columns_of, frames):
        columns = pick_columns(reading, names)
        rows = zip(*(map(_plain, cells[place]) for place in columns.places), strict=True)
        for row, number in zip(rows, numbers, strict=False):
            by_place = dict(zip(columns.places, row, strict=True))
            yield columns.record(f"row {number}", "", number, by_place)


def _plain(item: Any) -> Any:
    """A scalar of Arrow, a named tuple, a row of pandas, or an array, as objects of Python."""
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "_asdict"):
        return {name: cell for name, cell in item._asdict().items() if name != "Index"}
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    return item.tolist() if hasattr(item, "tolist") and getattr(item, "ndim", 0) == 1 else item
