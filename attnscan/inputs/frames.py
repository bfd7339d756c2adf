"""Objects of Python -> records: texts, pairs, rows, data frames of any library, and streams of them.

- A text or a `Sentence` is a sentence; a tuple or a list of two of them is a pair.
- A dict is a row, whose columns are told by their names, as those of files are; so is a data frame's row.
- A dict of lists is a table, if it is all that is given; in a list or a stream, a dict is a row.

No library of data frames is imported but pyarrow, for what hands its columns over as Arrow: frames are told by what
they offer.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

from attnscan.errors import InputError, PairsError, needs
from attnscan.inputs.read import FileReading, Picked, Row, picked
from attnscan.inputs.sentence import Pair, Place, Record, Sentence

_TEXTS = "give a list of texts, or of (text, text)"
_SPELLED = {"--columns 1": "columns=1", "--columns": "columns=", "--id": "id=", "pass --skip-bad": "pass on_bad="}
_REMEDIES: dict[type, str] = {
    bytes: "decode it: text.decode()",
    list: "give one text; pairs= takes many inputs",
    tuple: "give A and B apart; pairs= takes many inputs",
}


def pair_of(*sentences: object) -> Pair:
    """One sentence, or two; a B of None stands for none. Raises: InputError if they are no text, or cannot be read."""
    for name, sentence in zip("AB", sentences, strict=False):
        if not isinstance(sentence, str | Sentence) and (sentence is not None or name == "A"):
            what = f"{sentence}" if _is_missing(sentence) else f"of the class {type(sentence).__name__}"
            raise InputError(f"sentence {name} is {what}, and not text", _REMEDIES.get(type(sentence), "give text"))
    return Pair(*sentences)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Objects:
    """Pairs that a program holds, of a kind that can be read, and how they are read."""

    items: Iterable[object]
    reading: FileReading
    total: int | None = None
    """How many pairs there are, if that is known without reading them."""

    def records(self, on_bad: Callable[[InputError], None] | None = None) -> Iterator[Record]:
        """Read the pairs; their places count from 1. A bad pair is raised, or handed to `on_bad` and skipped.

        Raises: InputError.
        """
        for record in _read(self.items, self.reading):
            if not isinstance(record, InputError):
                yield record
            elif on_bad is None:
                raise record
            else:
                on_bad(record)

    def held(self) -> Objects:
        """These pairs, readable several times: a stream is read into a list."""
        return replace(self, items=list(self.items)) if isinstance(self.items, Iterator) else self


class _Frame(NamedTuple):
    """A table: the names of its columns, and row by row the cells of those that are picked."""

    names: Sequence[str]
    rows: Callable[[Picked], Iterable[Sequence[object]]]
    total: int | None


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs.

    Raises: InputError if not; PairsError if it is a data frame without such columns.
    """
    frame = _frame_of_lists(pairs) if isinstance(pairs, Mapping) else _frame_of(pairs)
    try:
        if frame is not None:
            picked(reading, frame.names)
            return Objects([frame], reading, frame.total)
        if hasattr(pairs, "select_columns"):  # a data set of Hugging Face: so no image is decoded
            names, total = pairs.column_names, len(pairs) if hasattr(pairs, "__len__") else None
            is_custom = (getattr(pairs, "format", None) or {}).get("type") == "custom"  # a function makes its rows
            if names is not None and not is_custom:
                pairs = pairs.select_columns([names[at] for at in picked(reading, names).indexes])
            return Objects(pairs, reading, total)
    except PairsError as error:
        raise _spelled(error) from None
    kind = f"pairs is of the class {type(pairs).__name__}, which holds no pairs"
    if isinstance(pairs, os.PathLike | io.IOBase) or (isinstance(pairs, str) and os.path.isfile(pairs[:4096])):  # noqa: PTH113
        raise InputError(kind, "give the path of a file")
    if _is_lazy(pairs) or hasattr(pairs, "iter_rows"):  # the latter of Ray
        raise InputError(kind, "compute or collect it first, or give its rows one by one")
    if getattr(pairs, "batch_sampler", None) is not None:
        raise InputError(f"{kind}: a batch of it may be texts, a pair, pairs or columns", "give its dataset")
    can_be = isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes | type)
    if not can_be or getattr(pairs, "ndim", 1) not in (1, 2):
        raise InputError(kind, _TEXTS)
    return Objects(pairs, reading, len(pairs) if isinstance(pairs, Collection) else None)


def _read(items: Iterable[object], reading: FileReading) -> Iterator[Record | InputError]:
    """The record of each pair, or the error of a bad one; the first rows decide which columns are read of all.

    Raises: InputError for an error of all pairs.
    """
    asked = reading.columns is not None or reading.id is not None
    names: Sequence[str] = ()
    columns: Picked | None = None
    unfit: InputError | None = None  # of the first dict that had not the columns
    number = 0
    try:
        iterator = iter(items)
    except TypeError as error:  # some classes say so only when they are asked
        raise InputError(f"pairs cannot be read one by one: {error}", _TEXTS) from None
    for item in map(_plain, iterator):
        frame = item if isinstance(item, _Frame) else _frame_of(item)
        if frame is None and not isinstance(item, Mapping):
            number += 1
            yield _pair(item, number, reading, asked)
            continue
        own = frame.names if frame is not None else list(map(str, item))
        if columns is None or own != names:
            try:
                columns = picked(reading, own, fixed=frame is not None)
            except PairsError as error:
                if frame is not None:
                    raise _spelled(error) from None
                number += 1
                unfit = unfit or _spelled(error, f"row {number}: ")
                yield _spelled(error, f"row {number}: ")
                continue
            names = own
            if reading.columns is None:  # later rows must have these columns, and may have others
                reading = replace(reading, columns=tuple(own[column.at] for column in columns.sentences))
        values = list(item.values()) if isinstance(item, Mapping) else []
        for cells in [[values[i] for i in columns.indexes]] if frame is None else frame.rows(columns):
            number += 1
            by_index = dict(zip(columns.indexes, map(_plain, cells), strict=True))
            yield _record(columns.row(f"row {number}", number, by_index))
    if unfit is not None and columns is None:
        raise unfit


def _pair(item: Any, number: int, reading: FileReading, asked: bool) -> Record | InputError:
    """The record of a text or a tuple. Raises: InputError for a text where columns were named."""
    where = f"pair {number}"
    if isinstance(item, str | Sentence):
        if asked:
            raise InputError(f"{where} is a text, which has no columns", "leave out columns and id")
        return _record(Row(where, number, (item,)))
    if not isinstance(item, tuple | list):
        return InputError(f"{where} is a {type(item).__name__}", "give a text, or two in a tuple")
    names: Sequence[str] = getattr(item, "_fields", ())
    if names[:1] == ("Index",):  # of DataFrame.itertuples
        item, names = item[1:], names[1:]
    if names or asked:
        try:
            columns = picked(reading, names or [str(place + 1) for place in range(len(item))])
        except PairsError as error:
            if asked or len(item) not in (1, 2):
                return _spelled(error, f"{where}: ")
        else:
            return _record(columns.row(where, number, item))
    if len(item) not in (1, 2):
        remedy = "give a text, or two in a tuple, or say which with columns=, counted from 1"
        return InputError(f"{where} is a {type(item).__name__} of {len(item)}", remedy)
    return _record(Row(where, number, tuple(item[:1] if item[-1] is None else item)))


def _record(row: Row) -> Record | InputError:
    for name, sentence in zip("AB", row.sentences, strict=False):
        if _is_missing(sentence):
            remedy = "correct it, or pass on_bad= to go on without it"
            return PairsError(f"{row.where}: sentence {name} is missing", remedy)
    try:
        pair = pair_of(*row.sentences)
    except InputError as error:
        return InputError(f"{row.where}: {error.what}", error.remedy.partition(";")[0])
    label, key = (None if _is_missing(cell) else str(cell) for cell in (row.label, row.id))
    return Record(pair, row.where, label, Place(row=row.number, id=key))


def _is_missing(cell: object) -> bool:
    """Whether a cell is empty: None, NaN, or NA of pandas."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, Real) and bool(cell != cell)


def _spelled(error: PairsError, where: str = "") -> PairsError:
    """An error about columns, with the names of Python's arguments in place of options."""
    if "'input_ids'" in error.what:
        return PairsError(f"{where}{error.what}", "it looks tokenized already: give the text, or name it with columns=")
    remedy = error.remedy
    for option, name in _SPELLED.items():
        remedy = remedy.replace(option, name)
    return PairsError(f"{where}{error.what}", remedy)


def _is_lazy(thing: object) -> bool:
    """Whether its rows are not there yet: of Dask, Spark, polars or Ray."""
    return hasattr(thing, "compute") or hasattr(thing, "collect")


def _frame_of(thing: Any) -> _Frame | None:
    """A data frame of any library, told by what it offers; None for all else, as for a stream of them."""
    if isinstance(thing, str | tuple | Sentence | type | Iterator) or _is_lazy(thing):
        return None
    total = len(thing) if hasattr(thing, "columns") and isinstance(thing, Sized) else getattr(thing, "num_rows", None)
    if hasattr(thing, "iloc") and hasattr(thing, "columns"):  # pandas, and what is like it
        names = list(map(str, thing.columns))
        return _Frame(names, lambda columns: zip(*(thing.iloc[:, i] for i in columns.indexes), strict=True), total)
    if hasattr(thing, "schema") and hasattr(thing, "column"):  # a table of Arrow, or a batch of one
        return _Frame(list(thing.schema.names), lambda columns: _cells(thing, columns), total)
    if not hasattr(thing, "columns") or not hasattr(thing, "__arrow_c_stream__"):  # polars, DuckDB and others
        return None
    with needs(f"reading a {type(thing).__name__} needs pyarrow", "parquet", InputError):
        import pyarrow as pa

    def rows(columns: Picked) -> Iterator[Sequence[object]]:
        for batch in pa.RecordBatchReader.from_stream(thing):
            yield from _cells(batch, columns)

    return _Frame(list(thing.columns), rows, total)


def _cells(table: Any, columns: Picked) -> Iterable[Sequence[object]]:
    return zip(*(table.column(i).to_pylist() for i in columns.indexes), strict=True)


def _frame_of_lists(columns: Mapping[Any, Any]) -> _Frame:
    """The frame of a dict of lists. Raises: InputError."""
    names, values, kind = list(map(str, columns)), list(columns.values()), type(columns).__name__
    if any(hasattr(value, "select_columns") for value in values):
        raise InputError(f"pairs is of the class {kind}, which holds splits", f"choose one: [{next(iter(columns))!r}]")
    lengths = {name: len(value) for name, value in zip(names, values, strict=True) if _is_column(value)}
    if not lengths:
        what = f"pairs is of the class {kind}, and none of its values is a list"
        raise InputError(what, "give a list of dicts, or a dict of lists")

    def rows(columns: Picked) -> Iterable[Sequence[object]]:
        for name in (names[i] for i in columns.indexes):
            if name not in lengths:
                what = f"pairs: column {name!r} is of the class {type(values[names.index(name)]).__name__}, not a list"
                raise InputError(what, "give a list of texts")
        if len({lengths[names[i]] for i in columns.indexes}) > 1:
            sizes = ", ".join(f"{names[i]!r} has {lengths[names[i]]}" for i in columns.indexes)
            raise InputError(f"pairs: columns are not of one length: {sizes}", "give each row a cell in every column")
        return zip(*(values[i] for i in columns.indexes), strict=True)

    return _Frame(names, rows, next(iter(lengths.values())))


def _is_column(value: object) -> bool:
    """Whether a value has many cells: a list, a tuple, an array, a Series."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1:
        return False
    return isinstance(value, Iterable) and isinstance(value, Sized) and _frame_of(value) is None


def _plain(item: Any) -> Any:
    """A scalar of Arrow, an array of texts, or a row of pandas, as objects of Python."""
    if isinstance(item, str):
        return item
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    if getattr(item, "ndim", 0) == 1 and getattr(item.dtype, "kind", "") in ("O", "U", "T"):
        return item.tolist()
    return item
