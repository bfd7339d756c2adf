"""Objects of Python -> records: texts, pairs, rows, data frames of any library, and streams of them.

- A text or a `Sentence` is a sentence; a tuple or a list of two of them is a pair.
- A dict is a row, whose columns are told by their names, as those of files are; so is a data frame's row.
- A dict of lists is many rows: as all that is given or, in a stream, as a batch. A list of dicts and a data frame are
  batches there, too. In what is held, such as a list, a dict is always a row.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from attnscan.errors import InputError, PairsError
from attnscan.inputs.columns import FileReading, Picked, picked
from attnscan.inputs.formats.row import Row, row_of
from attnscan.inputs.frames import Frame, frame_of, frame_of_columns, is_column, is_lazy, plain, together
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
    frame = frame_of_columns(pairs) if isinstance(pairs, Mapping) else frame_of(pairs)
    try:
        if frame is not None:
            picked(reading, frame.names, True)
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
    if is_lazy(pairs) or hasattr(pairs, "iter_rows"):  # the latter of Ray
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
        data = unformatted.select_columns([names[at] for at in picked(reading, names, True).indexes])
    return Objects(data, reading, total, batches=total is None)


def _batches(loader: Iterable[Any]) -> Iterator[object]:
    """The batches of a DataLoader. Raises: InputError for a list: it may be texts, one pair, pairs or columns."""
    for number, batch in enumerate(loader, 1):
        if isinstance(batch, list | tuple) and not any(isinstance(row, Mapping) for row in batch):
            what = f"batch {number} is a {type(batch).__name__}, which may be texts, a pair, pairs or columns"
            raise InputError(what, "give the loader's dataset, or let collate_fn give dicts of lists")
        yield batch


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
        for item in iterator:
            yield from self._item(plain(item))
        if self._unfit is not None and self._picked is None:
            raise self._unfit

    def _item(self, item: Any) -> Iterator[Record | InputError]:
        frame = item if isinstance(item, Frame) else frame_of(item) if self._batches else None
        if frame is not None:
            try:
                columns = self._columns(frame.names, fixed=True)
            except PairsError as error:
                raise _spelled(error) from None
            yield from self._rows(columns, frame.rows(columns.indexes))
        elif isinstance(item, Mapping):
            yield from self._mapping(item)
        elif self._batches and isinstance(item, list) and item and all(isinstance(row, Mapping) for row in item):
            for row in item:
                yield from self._mapping(row)
        else:
            yield self._pair(item)

    def _mapping(self, row: Mapping[Any, Any]) -> Iterator[Record | InputError]:
        names, values = tuple(map(str, row)), list(row.values())
        try:
            columns = self._columns(names, fixed=False)
        except PairsError as error:
            self._number += 1
            unfit = _spelled(error, f"row {self._number}: ")
            self._unfit = self._unfit or unfit
            yield unfit
            return
        at = columns.indexes
        if self._batches and any(is_column(values[column.index]) for column in columns.sentences):
            where = f"the batch after row {self._number}"
            yield from self._rows(columns, together([names[i] for i in at], [values[i] for i in at], where))
        else:
            yield from self._rows(columns, [[values[i] for i in at]])

    def _columns(self, names: tuple[str, ...], *, fixed: bool) -> Picked:
        """Choose the columns to read; later rows must have them, and may have others."""
        if self._picked is None or names != self._names:
            columns = picked(self._reading, names, fixed)
            self._picked, self._names = columns, names
            if self._reading.columns is None:
                chosen = tuple(names[column.index] for column in columns.sentences)
                self._reading = replace(self._reading, columns=chosen)
        return self._picked

    def _rows(self, columns: Picked, rows: Iterable[Sequence[object]]) -> Iterator[Record | InputError]:
        """The records of rows whose cells are those of `columns.indexes`."""
        for cells in rows:
            self._number += 1
            picked_cells = dict(zip(columns.indexes, map(plain, cells), strict=True))
            yield _record(row_of(f"row {self._number}", self._number, columns, picked_cells))

    def _pair(self, item: Any) -> Record | InputError:
        """The record of a text or a tuple. Raises: InputError for a text where columns were named."""
        self._number += 1
        where = f"pair {self._number}"
        if isinstance(item, str | Sentence):
            if self._asked:
                raise InputError(f"{where} is a text, which has no columns", "leave out columns and id")
            return _record(Row(where, self._number, (item,)))
        if not isinstance(item, tuple | list):
            remedy = "give a text, or two in a tuple" if frame_of(item) is None else "give one, or an iterator of them"
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
            return _bad(row.where, f"sentence {name} is missing")
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


def _bad(where: str, why: str) -> PairsError:
    return PairsError(f"{where}: {why}", "correct it, or pass on_bad= to go on without it")


def _spelled(error: PairsError, where: str = "") -> PairsError:
    """An error about columns, with the names of Python's arguments in place of options."""
    if "'input_ids'" in error.what:
        return PairsError(f"{where}{error.what}", "it looks tokenized already: give the text, or name it with columns=")
    remedy = error.remedy
    for option, name in _SPELLED.items():
        remedy = remedy.replace(option, name)
    return PairsError(f"{where}{error.what}", remedy)
