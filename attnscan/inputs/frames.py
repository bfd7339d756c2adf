"""Objects of Python -> records: texts, pairs, rows, data frames of any library, and streams of them.

- A text or a `Sentence` is a sentence; a tuple or a list of two of them is a pair.
- A dict is a row, whose columns are told by their names, as those of files are; so is a data frame's row.
- A dict of lists is a table, if it is all that is given; in a list or a stream, a dict is a row.

Frames are told by what they offer: `iloc` as pandas does, or their columns as Arrow, as polars and DuckDB do.
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


class _Table(NamedTuple):
    """A table: the names of its columns, and their cells."""

    names: Sequence[str]
    columns: Sequence[Any]
    total: int

    def rows(self, picked: Picked) -> Iterable[Sequence[object]]:
        """The cells of the picked columns, row by row. Raises: InputError for a column that is none."""
        columns = {self.names[i]: self.columns[i] for i in picked.indexes}
        for name, cells in columns.items():
            if not _is_column(cells):
                what = f"pairs: column {name!r} is of the class {type(cells).__name__}, not a list"
                raise InputError(what, "give a list of texts")
        if len({len(cells) for cells in columns.values()}) > 1:
            sizes = ", ".join(f"{name!r} has {len(cells)}" for name, cells in columns.items())
            raise InputError(f"pairs: columns are not of one length: {sizes}", "give each row a cell in every column")
        return zip(*columns.values(), strict=True)


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs.

    Raises: InputError if not; PairsError if it is a data frame without such columns.
    """
    try:
        if hasattr(pairs, "select_columns"):  # a data set of Hugging Face: so no image is decoded
            names, total = pairs.column_names, len(pairs) if hasattr(pairs, "__len__") else None
            is_custom = (getattr(pairs, "format", None) or {}).get("type") == "custom"  # a function makes its rows
            if names is not None and not is_custom:
                pairs = pairs.select_columns([names[at] for at in picked(reading, names).indexes])
            return Objects(pairs, reading, total)
        table = _table_of_lists(pairs) if isinstance(pairs, Mapping) else _table_of(pairs)
        if table is not None:
            picked(reading, table.names)
            return Objects([table], reading, table.total)
    except PairsError as error:
        raise _spelled(error) from None
    kind = f"pairs is of the class {type(pairs).__name__}, which holds no pairs"
    if isinstance(pairs, os.PathLike | io.IOBase) or (isinstance(pairs, str) and os.path.isfile(pairs[:4096])):  # noqa: PTH113
        raise InputError(kind, "give the path of a file")
    if any(hasattr(pairs, name) for name in ("compute", "collect", "iter_rows")):  # of Dask, Spark, polars, Ray
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
        table = item if isinstance(item, _Table) else _table_of(item)
        if table is None and not isinstance(item, Mapping):
            number += 1
            yield _pair(item, number, reading, asked)
            continue
        own = table.names if table is not None else list(map(str, item))
        if columns is None or own != names:
            try:
                columns, names = picked(reading, own, fixed=table is not None), own
            except PairsError as error:
                if table is not None:
                    raise _spelled(error) from None
                number += 1
                unfit = unfit or _spelled(error, f"row {number}: ")
                yield _spelled(error, f"row {number}: ")
                continue
            if reading.columns is None:  # later rows must have these columns, and may have others
                reading = replace(reading, columns=tuple(own[column.at] for column in columns.sentences))
        values = list(item.values()) if isinstance(item, Mapping) else []
        for cells in [[values[i] for i in columns.indexes]] if table is None else table.rows(columns):
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
    fits = len(item) in (1, 2)
    if names or asked:
        try:
            columns = picked(reading, names or [str(place + 1) for place in range(len(item))])
            return _record(columns.row(where, number, item))
        except PairsError as error:
            if asked or not fits:
                return _spelled(error, f"{where}: ")
    if not fits:
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


def _table_of(thing: Any) -> _Table | None:
    """A data frame of any library; None for all else, as for a stream of them."""
    if hasattr(thing, "iloc") and hasattr(thing, "columns"):  # pandas, and what is like it
        if hasattr(thing, "compute"):  # Dask, whose rows are not there yet
            return None
        names = list(map(str, thing.columns))
        return _Table(names, [thing.iloc[:, i] for i in range(len(names))], len(thing))
    if not any(hasattr(thing, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")):
        return None
    if not (hasattr(thing, "columns") or hasattr(thing, "schema")):  # an array of Arrow is no table
        return None
    with needs(f"reading a {type(thing).__name__} needs pyarrow", "parquet", InputError):
        import pyarrow as pa
    table = pa.table(thing)
    return _Table(table.column_names, table.columns, len(table))


def _table_of_lists(columns: Mapping[Any, Any]) -> _Table:
    """The table of a dict of lists. Raises: InputError."""
    values, kind = list(columns.values()), type(columns).__name__
    if any(hasattr(value, "select_columns") for value in values):
        raise InputError(f"pairs is of the class {kind}, which holds splits", f"choose one: [{next(iter(columns))!r}]")
    lengths = [len(value) for value in values if _is_column(value)]
    if not lengths:
        what = f"pairs is of the class {kind}, and none of its values is a list"
        raise InputError(what, "give a list of dicts, or a dict of lists")
    return _Table(list(map(str, columns)), values, lengths[0])


def _is_column(value: object) -> bool:
    """Whether a value has many cells: a list, a tuple, an array, a Series."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1:
        return False
    return isinstance(value, Iterable) and isinstance(value, Sized) and _table_of(value) is None


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
