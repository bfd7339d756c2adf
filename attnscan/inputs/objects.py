"""Objects of Python -> records: texts, pairs, rows, data frames of any library, and streams of them.

- A text or a `Sentence` is a sentence; a tuple or a list of two of them is a pair.
- A dict is a row, whose columns are told by their names, as those of files are; so is a data frame's row.
- A dict of lists is many rows: as all that is given or, in a stream, as a batch. A list of dicts and a data frame are
  batches there, too. In what is held, such as a list, a dict is always a row.

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
from attnscan.inputs.columns import FileReading, Picked, Row, picked, row_of
from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.inputs.sentence import Sentence

_TEXTS = "give a list of texts, or of (text, text)"
_SPELLED = {"--columns 1": "columns=1", "--columns": "columns=", "--id": "id=", "pass --skip-bad": "pass on_bad="}


def pair_of(*sentences: object) -> Pair:
    """One sentence, or two; a B of None stands for none. Raises: InputError if they are no text, or cannot be read."""
    for name, sentence in zip("AB", sentences, strict=False):
        if not isinstance(sentence, str | Sentence) and (sentence is not None or name == "A"):
            remedies: dict[type, str] = {
                bytes: "decode it: text.decode()",
                list: "give one text; pairs= takes many inputs",
                tuple: "give A and B apart; pairs= takes many inputs",
            }
            what = f"{sentence}" if _is_missing(sentence) else f"of the class {type(sentence).__name__}"
            raise InputError(f"sentence {name} is {what}, and not text", remedies.get(type(sentence), "give text"))
    return Pair(*sentences)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Objects:
    """Pairs that a program holds, of a kind that can be read, and how they are read."""

    items: Iterable[object]
    reading: FileReading
    total: int | None = None
    """How many pairs there are, if that is known without reading them."""
    batches: bool = False
    """Whether an item may be many rows."""

    def records(self, on_bad: Callable[[InputError], None] | None = None) -> Iterator[Record]:
        """Read the pairs; their places count from 1. A bad pair is raised, or handed to `on_bad` and skipped.

        Raises: InputError.
        """
        for record in _Reader(self.reading, self.batches).read(self.items):
            if not isinstance(record, InputError):
                yield record
            elif on_bad is None:
                raise record
            else:
                on_bad(record)

    def held(self) -> Objects:
        """These pairs, readable several times: a stream is read into a list."""
        return replace(self, items=list(self.items)) if isinstance(self.items, Iterator) else self


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs.

    Raises: InputError if not; PairsError if it is a data frame without such columns.
    """
    frame = _frame_of_columns(pairs) if isinstance(pairs, Mapping) else _frame_of(pairs)
    try:
        if frame is not None:
            picked(reading, frame.names)
            return Objects([frame], reading, frame.total, batches=True)
        if hasattr(pairs, "select_columns"):
            return _data_set(pairs, reading)
    except PairsError as error:
        raise _spelled(error) from None
    if remedy := _why_not(pairs):
        raise InputError(f"pairs is of the class {type(pairs).__name__}, which holds no pairs", remedy)
    if getattr(pairs, "batch_sampler", None) is not None:  # a DataLoader that makes batches
        return Objects(_batches(pairs), reading, batches=True)
    if isinstance(pairs, Collection):
        return Objects(pairs, reading, len(pairs))
    return Objects(pairs, reading, batches=True)


def _why_not(pairs: Any) -> str:
    """The remedy for an object that holds no pairs; empty where it may hold some."""
    if isinstance(pairs, os.PathLike | io.IOBase) or (isinstance(pairs, str) and os.path.isfile(pairs[:4096])):  # noqa: PTH113
        return "give the path of a file"
    if _is_lazy(pairs) or hasattr(pairs, "iter_rows"):  # the latter of Ray
        return "compute or collect it first, or give its rows one by one"
    can_be = isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes | type)
    return "" if can_be and getattr(pairs, "ndim", 1) in (1, 2) else _TEXTS


def _data_set(data: Any, reading: FileReading) -> Objects:
    """A data set of Hugging Face without the columns that are not read, so that no image is decoded.

    Raises: PairsError if it has not the columns.
    """
    total = len(data) if hasattr(data, "__len__") else None
    kind = (getattr(data, "format", None) or {}).get("type")
    if kind != "custom" and data.column_names is not None:  # else a function makes its rows
        names = list(data.column_names)
        unformatted = data if kind is None else data.with_format(None)
        data = unformatted.select_columns([names[at] for at in picked(reading, names).indexes])
    return Objects(data, reading, total, batches=total is None)


def _batches(loader: Iterable[Any]) -> Iterator[object]:
    """The batches of a DataLoader. Raises: InputError for a list: it may be texts, one pair, pairs or columns."""
    for number, batch in enumerate(loader, 1):
        if isinstance(batch, list | tuple) and not any(isinstance(row, Mapping) for row in batch):
            what = f"batch {number} is a {type(batch).__name__}, which may be texts, a pair, pairs or columns"
            raise InputError(what, "give the loader's dataset, or let collate_fn give dicts of lists")
        yield batch


class _Frame(NamedTuple):
    """Rows that have the same columns: a data frame, a dict of lists, or a single dict."""

    names: tuple[str, ...]
    rows: Callable[[Picked], Iterable[Sequence[object]]]
    """Row by row the cells of the columns that are picked, in the order of their indexes."""
    total: int | None = None
    """How many rows there are, if that is known without reading them."""
    fixed: bool = True
    """Whether later rows have these columns as well."""


class _Reader:
    """Reads items one by one; the first rows decide which columns are read of all."""

    def __init__(self, reading: FileReading, batches: bool) -> None:
        self._reading, self._batches = reading, batches
        self._asked = reading.columns is not None or reading.id is not None
        self._number = 0
        self._names: tuple[str, ...] = ()
        self._picked: Picked | None = None
        self._unfit: PairsError | None = None  # of the first dict that had not the columns

    def read(self, items: Iterable[object]) -> Iterator[Record | InputError]:
        """The record of each pair, or the error of a bad one. Raises: InputError for an error of all pairs."""
        try:
            iterator = iter(items)
        except TypeError as error:  # some classes say so only when they are asked
            raise InputError(f"pairs cannot be read one by one: {error}", _TEXTS) from None
        for item in map(_plain, iterator):
            of_dicts = isinstance(item, list) and item and all(isinstance(row, Mapping) for row in item)
            for row in item if self._batches and of_dicts else [item]:
                frame = self._frame(row)
                yield from [self._pair(row)] if frame is None else self._rows(frame)
        if self._unfit is not None and self._picked is None:
            raise self._unfit

    def _frame(self, item: Any) -> _Frame | None:
        if isinstance(item, Mapping):
            names, values = tuple(map(str, item)), list(item.values())

            def rows(columns: Picked) -> Iterable[Sequence[object]]:
                if self._batches and any(_is_column(values[column.index]) for column in columns.sentences):
                    return _together(names, values, columns, f"the batch after row {self._number}")
                return [[values[i] for i in columns.indexes]]

            return _Frame(names, rows, fixed=False)
        return item if isinstance(item, _Frame) else _frame_of(item) if self._batches else None

    def _rows(self, frame: _Frame) -> Iterator[Record | InputError]:
        """The records of rows. Raises: PairsError for a frame without the columns."""
        try:
            columns = self._columns(frame)
        except PairsError as error:
            if frame.fixed:
                raise _spelled(error) from None
            self._number += 1
            unfit = _spelled(error, f"row {self._number}: ")
            self._unfit = self._unfit or unfit
            yield unfit
            return
        for cells in frame.rows(columns):
            self._number += 1
            by_index = dict(zip(columns.indexes, map(_plain, cells), strict=True))
            yield _record(row_of(f"row {self._number}", self._number, columns, by_index))

    def _columns(self, frame: _Frame) -> Picked:
        """Choose the columns to read; later rows must have them, and may have others."""
        if self._picked is None or frame.names != self._names:
            columns = picked(self._reading, frame.names, frame.fixed)
            self._picked, self._names = columns, frame.names
            if self._reading.columns is None:
                chosen = tuple(frame.names[column.index] for column in columns.sentences)
                self._reading = replace(self._reading, columns=chosen)
        return self._picked

    def _pair(self, item: Any) -> Record | InputError:
        """The record of a text or a tuple. Raises: InputError for a text where columns were named."""
        self._number += 1
        where = f"pair {self._number}"
        if isinstance(item, str | Sentence):
            if self._asked:
                raise InputError(f"{where} is a text, which has no columns", "leave out columns and id")
            return _record(Row(where, self._number, (item,)))
        if not isinstance(item, tuple | list):
            remedy = "give a text, or two in a tuple" if _frame_of(item) is None else "give one, or an iterator of them"
            return InputError(f"{where} is a {type(item).__name__}", remedy)
        names: Sequence[str] = getattr(item, "_fields", ())
        if names[:1] == ("Index",):  # of DataFrame.itertuples
            item, names = item[1:], names[1:]
        if names or self._asked:
            try:
                columns = picked(self._reading, names or [str(number + 1) for number in range(len(item))], True)
            except PairsError as error:
                if self._asked or len(item) not in (1, 2):
                    return _spelled(error, f"{where}: ")
            else:
                return _record(row_of(where, self._number, columns, item))
        if len(item) not in (1, 2):
            remedy = "give a text, or two in a tuple, or say which with columns=, counted from 1"
            return InputError(f"{where} is a {type(item).__name__} of {len(item)}", remedy)
        return _record(Row(where, self._number, tuple(item[:1] if item[-1] is None else item)))


def _record(row: Row) -> Record | InputError:
    for name, sentence in zip("AB", row.sentences, strict=False):
        if _is_missing(sentence):
            return PairsError(
                f"{row.where}: sentence {name} is missing", "correct it, or pass on_bad= to go on without it"
            )
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


def _frame_of(thing: Any) -> _Frame | None:
    """A data frame of any library, told by what it offers; None for all else, as for a stream of them."""
    if isinstance(thing, type | Iterator) or _is_lazy(thing):
        return None
    if hasattr(thing, "iloc") and hasattr(thing, "columns"):  # pandas, and what is like it
        names = tuple(map(str, thing.columns))
        return _Frame(names, lambda columns: zip(*(thing.iloc[:, i] for i in columns.indexes), strict=True), len(thing))
    if hasattr(thing, "schema") and (hasattr(thing, "to_batches") or hasattr(thing, "to_pydict")):  # Arrow
        names, total = tuple(thing.schema.names), getattr(thing, "num_rows", None)
    elif hasattr(thing, "columns") and hasattr(thing, "__arrow_c_stream__"):  # polars, DuckDB and others
        names, total = tuple(thing.columns), len(thing) if hasattr(thing, "__len__") else None
    else:
        return None
    return _Frame(names, lambda columns: _arrow_rows(thing, columns.indexes), total)


def _is_lazy(thing: object) -> bool:
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


def _frame_of_columns(columns: Mapping[Any, Any]) -> _Frame:
    """The frame of a dict of lists. Raises: InputError."""
    names, values, kind = tuple(map(str, columns)), list(columns.values()), type(columns).__name__
    if any(hasattr(value, "select_columns") for value in values):
        raise InputError(f"pairs is of the class {kind}, which holds splits", f"choose one: [{next(iter(columns))!r}]")
    lengths = [len(value) for value in values if _is_column(value)]
    if not lengths:
        what = f"pairs is of the class {kind}, and none of its values is a list"
        raise InputError(what, "give a list of dicts, or a dict of lists")
    return _Frame(names, lambda picks: _together(names, values, picks, "pairs"), lengths[0])


def _together(names: Sequence[str], values: Sequence[Any], picks: Picked, where: str) -> Iterator[Sequence[object]]:
    """The rows of the columns that are picked. Raises: InputError if they are none, or are not of one length."""
    columns = [values[i] for i in picks.indexes]
    told = [repr(names[i]) for i in picks.indexes]
    for name, column in zip(told, columns, strict=True):
        if not _is_column(column):
            what = f"{where}: column {name} is of the class {type(column).__name__}, not a list"
            raise InputError(what, "give a list of texts")
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        sizes = ", ".join(f"{name} has {length}" for name, length in zip(told, lengths, strict=True))
        raise InputError(f"{where}: columns are not of one length: {sizes}", "give each row a cell in every column")
    return zip(*columns, strict=True)


def _is_column(value: object) -> bool:
    """Whether a value has many cells: a list, a tuple, an array, a Series."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1:
        return False
    return isinstance(value, Iterable) and isinstance(value, Sized) and _frame_of(value) is None


def _plain(item: Any) -> Any:
    """A scalar of Arrow, an array of texts, or a row of pandas, as objects of Python."""
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    if getattr(item, "ndim", 0) == 1 and getattr(item.dtype, "kind", "") in ("O", "U", "T"):
        return item.tolist()
    return item
