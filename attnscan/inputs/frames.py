"""Objects of Python -> records: texts, pairs, rows, data frames and data sets, and streams of them.

- A text or a `Sentence` is a sentence; a tuple or a list of two of them is a pair.
- A dict is a row, whose columns are told by their names, as those of files are; so is a data frame's row.
- A dict of lists is a table, if it is all that is given; in a list or a stream, a dict is a row.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from attnscan.errors import InputError, PairsError, needs
from attnscan.inputs.read import FileReading, good_records, known_among, pick_columns, record_of
from attnscan.inputs.sentence import Pair, Place, Record, Sentence, Text


def pair_of(*sentences: object) -> Pair:
    """One sentence, or two; a B of None stands for none. Raises: InputError if they are no text, or cannot be read."""
    for name, sentence in zip("AB", sentences, strict=False):
        if not isinstance(sentence, str | Sentence) and (sentence is not None or name == "A"):
            what = f"sentence {name} is of the class {type(sentence).__name__}, and not text"
            raise InputError(what, "give a text; pairs= takes many inputs")
    return Pair(*sentences)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Objects:
    """Pairs that a program holds, of a kind that can be read, and how they are read."""

    items: Iterable[Any]
    reading: FileReading
    total: int | None = None
    """How many pairs there are, if that is known without reading them."""

    def records(self, on_bad: Callable[[InputError], None] | None = None) -> Iterator[Record]:
        """Read the pairs; their places count from 1. A bad pair is raised, or handed to `on_bad` and skipped."""
        return good_records(_read(self.items, self.reading), on_bad)

    def held(self) -> Objects:
        """These pairs, readable several times: a stream is read into a list."""
        return replace(self, items=list(self.items)) if isinstance(self.items, Iterator) else self


class _Table(NamedTuple):
    """A table: the names of its columns, and their cells."""

    names: Sequence[str]
    columns: Sequence[Any]


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs. Raises: InputError, PairsError."""
    kind = f"pairs is of the class {type(pairs).__name__}, which holds"
    if isinstance(pairs, Mapping) and any(hasattr(value, "select_columns") for value in pairs.values()):
        raise InputError(f"{kind} splits", f"choose one: [{next(iter(pairs))!r}]")
    if isinstance(pairs, Mapping) or _is_frame(pairs):
        table = _table_of(pairs)
        pick_columns(reading, table.names)
        return Objects([table], reading, len(table.columns[0]))
    if hasattr(pairs, "select_columns") and pairs.column_names:  # a data set of Hugging Face: so no image is decoded
        if (getattr(pairs, "format", None) or {}).get("type") != "custom":  # else a function makes its rows
            places = pick_columns(reading, pairs.column_names).places
            pairs = pairs.select_columns([pairs.column_names[place] for place in places])
    elif isinstance(pairs, os.PathLike | io.IOBase) or (isinstance(pairs, str) and os.path.isfile(pairs[:4096])):  # noqa: PTH113
        raise InputError(f"{kind} no pairs", "give the path of a file")
    elif getattr(pairs, "batch_sampler", None) or hasattr(pairs, "compute") or hasattr(pairs, "collect"):
        raise InputError(f"{kind} no pairs yet", "give its dataset, or compute or collect it first")
    is_iterable = isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes | type)
    if not is_iterable or getattr(pairs, "ndim", 1) not in (1, 2):
        raise InputError(f"{kind} no pairs", "give a list of texts, or of (text, text)")
    return Objects(pairs, reading, len(pairs) if isinstance(pairs, Sized) else None)


def _is_frame(item: Any) -> bool:
    """Whether it is a data frame: of pandas, or of a library that hands its columns over as Arrow."""
    is_frame = hasattr(item, "iloc") or hasattr(item, "__arrow_c_stream__")
    return is_frame and (hasattr(item, "columns") or hasattr(item, "schema")) and not hasattr(item, "compute")


def _table_of(frame: Any) -> _Table:
    """The columns of a data frame, or of a dict of lists. Raises: InputError for a dict whose values are no lists."""
    if isinstance(frame, Mapping):
        columns = [_plain(value) for value in frame.values()]
        if not columns or not all(isinstance(column, list | tuple) for column in columns):
            what = "pairs is a dict whose values are not all lists"
            raise InputError(what, "give a list of dicts, or a dict of lists")
        if len(set(map(len, columns))) > 1:
            raise InputError("the columns of pairs are not of one length", "give each row a cell in every column")
        return _Table(list(map(str, frame)), columns)
    if hasattr(frame, "iloc"):
        return _Table(list(map(str, frame.columns)), [frame.iloc[:, place] for place in range(len(frame.columns))])
    with needs(f"reading a {type(frame).__name__} needs pyarrow", "parquet", InputError):
        import pyarrow as pa
    arrow = pa.table(frame)
    return _Table(arrow.column_names, arrow.columns)


def _read(items: Iterable[Any], reading: FileReading) -> Iterator[Record | PairsError]:
    """The record of each pair, or the error of a bad one; the first rows decide which columns are read of all."""
    number, is_asked = 0, reading.columns is not None or reading.id is not None
    for item in map(_plain, items):
        if (table := _rows_in(item, is_asked)) is None:
            number += 1
            cells = list(item) if isinstance(item, tuple | list) else [item]
            cells = cells[:1] if len(cells) == 2 and cells[1] is None else cells  # a B of None stands for none
            yield record_of(f"row {number}", Place(row=number), cells)
            continue
        try:
            columns = pick_columns(reading, table.names)
        except PairsError as error:
            number += 1
            yield PairsError(f"row {number}: {error.what}", error.remedy)
            continue
        if reading.columns is None:  # later rows must have these columns, and may have others
            reading = replace(reading, columns=tuple(table.names[column[0]] for column in columns.sentences))
        for row in zip(*[table.columns[place] for place in columns.places], strict=True):
            number += 1
            by_place = dict(zip(columns.places, map(_plain, row), strict=True))
            yield columns.record(f"row {number}", "", number, by_place)


def _rows_in(item: Any, is_asked: bool) -> _Table | None:
    """The rows of what has columns, or is asked for them; None for a text or a pair."""
    if isinstance(item, _Table):
        return item
    if _is_frame(item):
        return _table_of(item)
    if isinstance(item, Mapping):
        return _Table(list(map(str, item)), [[cell] for cell in item.values()])
    names = getattr(item, "_fields", ())  # such as `DataFrame.itertuples` gives
    if isinstance(item, tuple | list) and (is_asked or known_among(names)):
        start = int(names[:1] == ("Index",))
        places = [str(place) for place in range(1, len(item) + 1)]
        return _Table(names[start:] or places, [[cell] for cell in item[start:]])
    if is_asked and isinstance(item, Text):
        raise InputError("a text has no columns", "leave out columns and id")
    return None


def _plain(item: Any) -> Any:
    """A scalar of Arrow, an array, or a row of pandas, as objects of Python."""
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    return item.tolist() if hasattr(item, "tolist") and getattr(item, "ndim", 0) == 1 else item
