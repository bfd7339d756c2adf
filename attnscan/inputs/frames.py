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

_REMEDIES: dict[type, str] = {
    bytes: "decode it: text.decode()",
    list: "give one text; pairs= takes many inputs",
    tuple: "give A and B apart; pairs= takes many inputs",
}


def pair_of(*sentences: object) -> Pair:
    """One sentence, or two; a B of None stands for none. Raises: InputError if they are no text, or cannot be read."""
    for name, sentence in zip("AB", sentences, strict=False):
        if not isinstance(sentence, str | Sentence) and (sentence is not None or name == "A"):
            what = f"sentence {name} is of the class {type(sentence).__name__}, and not text"
            raise InputError(what, _REMEDIES.get(type(sentence), "give text"))
    return Pair(*sentences)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Objects:
    """Pairs that a program holds, of a kind that can be read, and how they are read."""

    items: Iterable[Any]
    reading: FileReading
    total: int | None = None
    """How many pairs there are, if that is known without reading them."""

    def records(self, on_bad: Callable[[InputError], None] | None = None) -> Iterator[Record]:
        """Read the pairs; their places count from 1. A bad pair is raised, or handed to `on_bad` and skipped.

        Raises: InputError.
        """
        return good_records(_read(self.items, self.reading), on_bad)

    def held(self) -> Objects:
        """These pairs, readable several times: a stream is read into a list."""
        return replace(self, items=list(self.items)) if isinstance(self.items, Iterator) else self


class _Table(NamedTuple):
    """A table: the names of its columns, and their cells."""

    names: Sequence[str]
    columns: Sequence[Any]


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs.

    Raises: InputError if not; PairsError if it is a data frame without such columns.
    """
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
    elif getattr(pairs, "batch_sampler", None) or any(hasattr(pairs, name) for name in ("compute", "collect")):
        raise InputError(f"{kind} no pairs yet", "give its dataset, or compute or collect it first")
    is_iterable = isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes | type)
    if not is_iterable or getattr(pairs, "ndim", 1) not in (1, 2):
        raise InputError(f"{kind} no pairs", "give a list of texts, or of (text, text)")
    return Objects(pairs, reading, len(pairs) if isinstance(pairs, Sized) else None)


def _is_frame(item: Any) -> bool:
    """Whether it is a data frame: of pandas, or of a library that hands its columns over as Arrow."""
    has_columns = hasattr(item, "columns") or hasattr(item, "schema")
    return (
        has_columns and not hasattr(item, "compute") and (hasattr(item, "iloc") or hasattr(item, "__arrow_c_stream__"))
    )


def _table_of(frame: Any) -> _Table:
    """The columns of a data frame, or of a dict of lists. Raises: InputError for a dict whose values are no lists."""
    if isinstance(frame, _Table):
        return frame
    if isinstance(frame, Mapping):
        table = _Table(
            list(map(str, frame)), [value if isinstance(value, list) else _plain(value) for value in frame.values()]
        )
        if not table.columns or not all(isinstance(column, list | tuple) for column in table.columns):
            raise InputError(
                "pairs is a dict whose values are not all lists", "give a list of dicts, or a dict of lists"
            )
        if len(set(map(len, table.columns))) > 1:
            raise InputError("the columns of pairs are not of one length", "give each row a cell in every column")
        return table
    if hasattr(frame, "iloc"):
        return _Table(list(map(str, frame.columns)), [frame.iloc[:, place] for place in range(len(frame.columns))])
    with needs(f"reading a {type(frame).__name__} needs pyarrow", "parquet", InputError):
        import pyarrow as pa
    arrow = pa.table(frame)
    return _Table(arrow.column_names, arrow.columns)


def _read(items: Iterable[Any], reading: FileReading) -> Iterator[Record | PairsError]:
    """The record of each pair, or the error of a bad one; the first rows decide which columns are read of all.

    Raises: InputError for a text where columns were named.
    """
    number, is_asked = 0, reading.columns is not None or reading.id is not None
    for item in map(_plain, items):
        kind, table, cells = "pair", None, [item]
        if isinstance(item, _Table) or _is_frame(item):
            kind, table = "row", _table_of(item)
        elif isinstance(item, Mapping):
            kind, table = "row", _Table(list(map(str, item)), [[cell] for cell in item.values()])
        elif isinstance(item, tuple | list):
            names, cells = list(getattr(item, "_fields", ())), list(item)
            if names[:1] == ["Index"]:  # of DataFrame.itertuples
                names, cells = names[1:], cells[1:]
            if is_asked or known_among(names):
                places = [str(place) for place in range(1, len(cells) + 1)]
                table = _Table(names or places, [[cell] for cell in cells])
        elif is_asked and isinstance(item, Text):
            raise InputError(f"pair {number + 1} is a text, which has no columns", "leave out columns and id")
        if table is None:
            number += 1
            cells = cells[:1] if len(cells) == 2 and cells[1] is None else cells  # a B of None stands for none
            yield record_of(f"pair {number}", Place(row=number), cells)
            continue
        try:
            columns = pick_columns(reading, table.names)
        except PairsError as error:
            number += 1
            yield PairsError(f"{kind} {number}: {error.what}", error.remedy)
            continue
        if kind == "row" and reading.columns is None:  # later rows must have these columns, and may have others
            reading = replace(reading, columns=tuple(table.names[column[0]] for column in columns.sentences))
        for row in zip(*[table.columns[place] for place in columns.places], strict=True):
            number += 1
            by_place = dict(zip(columns.places, map(_plain, row), strict=True))
            yield columns.record(f"{kind} {number}", "", number, by_place)


def _plain(item: Any) -> Any:
    """A scalar of Arrow, an array, or a row of pandas, as objects of Python."""
    if isinstance(item, str):
        return item
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    return item.tolist() if hasattr(item, "tolist") and getattr(item, "ndim", 0) == 1 else item
