"""Rows of files, and objects of Python, -> records.

It says which columns hold the sentences, and what is wrong with a row. Objects are texts, pairs,
dicts, named tuples, data frames, data sets, and streams of these.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Annotated, Any, Literal, NamedTuple

from attnscan.errors import InputError, OptionError, PairsError, needs
from attnscan.inputs.option import Option, check_declared
from attnscan.inputs.report import FileReport
from attnscan.inputs.sentence import Pair, Place, Record, Text, bad_record

KNOWN_COLUMNS = (
    ("sentence_a", "sentence_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("source", "target"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("query", "passage"),
    ("anchor", "positive"),
    ("context", "response"),
    ("sentence a", "sentence b"),
    ("#1 string", "#2 string"),
    ("text",),
    ("sentence",),
)
"""The names that are looked for, in any case.

attnscan's own come first, then those of the usual data sets.
"""

Quoting = Literal["auto", "csv", "none"]
OnBad = Callable[[InputError], object]
"""Is handed each bad record in place of an error; reading goes on after it."""
Rows = Iterator[Record | PairsError]
"""Records, with a PairsError in the place of each bad one."""
Classes = Mapping[str, Sequence[str]]
"""The names of classes, by the column whose cells are their numbers."""
_LABELS = ("label", "gold_label")  # columns of a record's class: GLUE's, and SNLI's
_GROUPS = ("genre",)  # columns whose cells are groups of pairs, where none is named
BY_FILE = "file"
"""What stands for the files in place of a column of groups."""
_RECORDS_AHEAD = 1_000  # whose keys decide which columns are read


@dataclass(frozen=True)
class FileReading:
    """How files of pairs are read.

    Raises: PairsError for more than two columns; OptionError for an encoding.
    """

    columns: Annotated[
        tuple[str, ...] | None,
        Option("Columns that hold the sentences: names, numbers or paths.", metavar="A[,B]"),
    ] = None
    header: Annotated[bool | None, Option("Whether the first line names the columns.")] = None
    quoting: Annotated[
        Quoting, Option("Quotes around cells belong to the format (csv) or to the text (none).")
    ] = "auto"
    encoding: Annotated[
        str | None,
        Option(
            "Encoding of text files, such as cp1252. "
            "[default: UTF-8, or UTF-16 by its mark, else Windows-1252]",
            metavar="NAME",
        ),
    ] = None
    id: Annotated[
        str | None, Option("Copy this column to --per-pair, to join rows by it.", metavar="COLUMN")
    ] = None
    group: Annotated[
        str | None,
        Option(
            "Ask how sure labels are across groups: a column, or 'file' for the files. "
            "[default: the column genre, else bins of length]",
            metavar="COLUMN",
        ),
    ] = None
    labelled: bool = False
    """Whether the cell of a column `label` is kept with each pair."""

    def __post_init__(self) -> None:
        check_declared(self)
        if self.columns is not None and len(self.columns) not in (1, 2):
            raise PairsError(
                f"{len(self.columns)} columns were named", "name one, or two for pairs"
            )
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError, TypeError):
                raise OptionError(
                    f"there is no text encoding {str(self.encoding)[:40]!r}",
                    "give one that Python knows, such as utf-8, cp1252 or gb18030",
                ) from None


def good_records(rows: Iterable[Record | PairsError], on_bad: OnBad | None) -> Iterator[Record]:
    """The records without the bad ones.

    Raises: PairsError for a bad one, unless that is handed to `on_bad`.
    """
    for row in rows:
        if isinstance(row, Record):
            yield row
        elif on_bad is None:
            raise row
        else:
            on_bad(row)


def _make_record(
    where: str,
    place: Place,
    cells: Sequence[Any],
    label: Any = None,
    class_number: int | None = None,
) -> Record | PairsError:
    """The record of one or two cells, or what is wrong with them."""
    if len(cells) not in (1, 2):
        return bad_record(
            where, f"it has {len(cells)} cells, where one or two sentences are expected"
        )
    for name, cell in zip("AB", cells, strict=False):
        if _is_missing(cell):
            return bad_record(where, f"sentence {name} is missing")
    try:
        pair = Pair(*cells)
    except InputError as error:
        return bad_record(where, error.what)
    return Record(pair, where, label=_as_text(label), place=place, class_number=class_number)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is empty: None, NaN, or NA of pandas."""
    return cell is None or (not isinstance(cell, Text) and str(cell) in ("nan", "NaT", "<NA>"))


def _as_text(cell: Any) -> str | None:
    """An id or a label as text, with invalid Unicode replaced; None for a missing one."""
    return None if _is_missing(cell) else str(cell).encode(errors="replace").decode()


Column = tuple[Any, ...]
"""A column: its place from 0 and, where its cells are nested, the keys of the value inside."""


class Columns(NamedTuple):
    """The columns to read of each row."""

    sentences: tuple[Column, ...]
    id: Column | None
    label: Column | None
    group: Column | None
    class_names: Sequence[str] = ()
    """The names of the classes whose numbers the column `label` holds; empty if it has none."""
    names: tuple[str, ...] = ()
    """What the columns of sentences are called."""
    why: str = ""
    """Why these are read."""

    @property
    def places(self) -> tuple[int, ...]:
        """The places of all, without repeats."""
        columns = (*self.sentences, self.id, self.label, self.group)
        return tuple(dict.fromkeys(column[0] for column in columns if column))

    def describe(self, report: FileReport) -> None:
        """Report which columns are read, and why."""
        report.columns = self.names
        report.why = self.why

    def record(self, where: str, file: str, number: int, cells: Any) -> Record | PairsError:
        """The record of a row's cells, by their places, or what is wrong with it."""
        id_ = None if self.id is None else _value(cells, self.id)
        label = None if self.label is None else _value(cells, self.label)
        group = None
        if self.group is not None:
            group = _as_text(_value(cells, self.group)) or ""
        sentences = [_value(cells, column) for column in self.sentences]
        class_number = None
        if isinstance(label, int) and 0 <= label < len(self.class_names):
            class_number = label
            label = self.class_names[label]
        place = Place(file=file, row=number, id=_as_text(id_), group=group)
        return _make_record(where, place, sentences, label, class_number)


def _value(cells: Any, column: Column) -> Any:
    """The value in a row's cells; None if a key is not there. Items of lists are counted from 1."""
    value = cells[column[0]]
    for key in column[1:]:
        if isinstance(value, list | tuple):
            value = dict(enumerate(value, 1)).get(_number(key))
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def pick_columns(
    reading: FileReading, names: Sequence[str], classes: Classes | None = None
) -> Columns:
    """Choose the columns to read by their names; `classes` has the names of classes.

    Raises: PairsError that lists the columns if there are none.
    """
    wanted = reading.columns
    why = "named by --columns"
    if wanted is None:
        wanted = known_among(names)
        why = "known names"
    if not wanted:
        wanted = _only_columns(names)
        why = "the only columns" if len(names) > 1 else "the only column"
    if not wanted:
        raise PairsError(
            f"the columns are {quoted_names(names)}, and none is known to hold sentences",
            "name one or two of them with ``columns``, or say which, counted from 1",
        )
    sentences = tuple(_column(names, name, "``columns``") for name in wanted)
    id_ = None if reading.id is None else _column(names, reading.id, "``id``")
    label = _first_called(_LABELS, names, sentences) if reading.labelled else None
    if reading.group is None:
        group = _first_called(_GROUPS, names, sentences)
    else:
        group = None if reading.group == BY_FILE else _column(names, reading.group, "``group``")
    class_names = classes.get(names[label[0]], ()) if label and classes else ()
    return Columns(
        sentences=sentences,
        id=id_,
        label=label,
        group=group,
        class_names=class_names,
        names=tuple(".".join([names[place], *keys]) for place, *keys in sentences),
        why=why,
    )


def class_names(schema: Any) -> Classes:
    """The names of classes, which `datasets` keeps beside the columns of their numbers."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = about["info"]["features"]
        return {
            name: list(feature["names"])
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError):  # of no or another form
        return {}


def _only_columns(names: Sequence[str]) -> tuple[str, ...] | None:
    """The names of the only column, or of two that have numbers for names; else None.

    Raises: PairsError for an only one that looks like several.
    """
    if len(names) != 1 and list(names) != ["1", "2"]:
        return None
    if re.search("[,;\t|]", names[0]):
        raise PairsError(
            f"the only column is {quoted_names(names)}, as if another separator were used",
            "save it as CSV or TSV, or pass ``columns=1``",
        )
    return tuple(names)


def _first_called(
    wanted: Sequence[str], names: Sequence[str], sentences: Sequence[Column]
) -> Column | None:
    """The first column that is called one of these and holds no sentence."""
    for place, name in enumerate(names):
        if _folded(name) in wanted and (place,) not in sentences:
            return (place,)
    return None


def known_among(names: Sequence[str]) -> tuple[str, ...] | None:
    """The first of `KNOWN_COLUMNS` that are all among these names, in any case."""
    folded = {_folded(name) for name in names}
    return next((columns for columns in KNOWN_COLUMNS if folded.issuperset(columns)), None)


def _column(names: Sequence[str], column: str, option: str) -> Column:
    """The column of exactly this name, or up to case and spaces, or of this number, or a path.

    A path leads from a column into its nested cells.
    """
    places = [place for place, name in enumerate(names) if name == column]
    if not places:
        folded = _folded(column)
        places = [place for place, name in enumerate(names) if _folded(name) == folded]
    if len(places) > 1:
        raise PairsError(
            f"{len(places)} columns are called {column!r}",
            f"say which with {option}, counted from 1",
        )
    if places:
        return (places[0],)
    if 0 < _number(column) <= len(names):
        return (_number(column) - 1,)
    outer, *keys = column.split(".")
    if keys and outer in names:
        return (names.index(outer), *keys)
    raise PairsError(
        f"there is no column {column!r:.60}; the columns are {quoted_names(names)}",
        f"name those to read with {option}, or say which, counted from 1",
    )


def _number(text: str) -> int:
    """A column's name as a number from 1; 0 if it is no number."""
    return int(text) if re.fullmatch("[0-9]{1,5}", text) else 0


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def quoted_names(names: Sequence[str]) -> str:
    """The names as an error lists them: 20 at most, long ones cut."""
    if not names:
        return "none"
    listed = [f"{name!r:.40}" for name in names[:20]]
    if len(names) > 20:
        listed.append("…")
    return ", ".join(listed)


def parse_records(
    rows: Iterable[tuple[str, Any]],
    reading: FileReading,
    report: FileReport,
    classes: Classes | None = None,
) -> Rows:
    """The records of texts, lists of one or two, and dicts.

    The keys of the first dicts together decide which columns are read: writers leave out a key
    whose value is null.
    """
    rows = iter(rows)
    start = list(islice(rows, _RECORDS_AHEAD))
    keys = _Keys(reading, classes)
    for _, item in start:
        keys.add(_as_row(item, reading))
    for number, (where, item) in enumerate(chain(start, rows), 1):
        row = _as_row(item, reading)
        if isinstance(row, Mapping):
            try:
                columns = keys.columns(row)
                columns.describe(report)
            except PairsError as error:
                yield PairsError(f"{where}: {error.what}", error.remedy)
                continue
            yield columns.record(where, report.file, number, [row.get(name) for name in keys.names])
        elif isinstance(row, list | tuple):
            has_no_b = len(row) == 2 and row[1] is None
            yield _make_record(where, Place(report.file, number), row[:1] if has_no_b else row)
        elif isinstance(row, PairsError):
            yield row
        else:
            yield bad_record(where, "it is no text, list or object")


def _as_row(item: Any, reading: FileReading) -> Any:
    """A text as a list of one; a list as a dict by numbers, if columns are named."""
    if isinstance(item, Text):
        item = [item]
    has_group = reading.group not in (None, BY_FILE)
    has_option = reading.columns is not None or reading.id is not None or has_group
    if isinstance(item, list | tuple) and has_option:
        return {str(at): cell for at, cell in enumerate(item, 1)}
    return item


class _Keys:
    """The keys of dicts, and which columns are read by them."""

    def __init__(self, reading: FileReading, classes: Classes | None) -> None:
        self.names: list[Any] = []
        self._reading = reading
        self._classes = classes
        self._columns: Columns | None = None

    def add(self, row: Any) -> None:
        """Take the keys of a row that no row before it has, in any spelling."""
        if not isinstance(row, Mapping) or row.keys() <= set(self.names):
            return
        folded = {_folded(str(name)) for name in self.names}
        self.names += [
            name for name in row if name not in self.names and _folded(str(name)) not in folded
        ]

    def columns(self, row: Mapping[Any, Any]) -> Columns:
        """The columns to read of a row.

        Raises: PairsError if none fit, or if its keys say otherwise.
        """
        names = list(map(str, self.names))
        if self._columns is None:
            self.add(row)
            names = list(map(str, self.names))
            self._columns = pick_columns(self._reading, names, self._classes)
        elif self._reading.columns is None and not row.keys() <= set(self.names):
            known = known_among([*names, *map(str, row)])
            if known != known_among(names):
                ahead = f"which the first {_RECORDS_AHEAD:,} records lack"
                raise PairsError(
                    f"it has {quoted_names(known or ())}, {ahead}",
                    "name the columns of all records with ``columns``",
                )
        return self._columns


@dataclass(frozen=True)
class Objects:
    """Pairs that a program holds, of a kind that can be read, and how they are read."""

    items: Iterable[Any]
    reading: FileReading
    total: int | None
    """How many pairs there are, if that is known without reading them."""
    classes: Classes | None = None
    """The names of classes, if the pairs have some for their numbers."""

    def records(self, on_bad: OnBad | None = None) -> Iterator[Record]:
        """Read the pairs; their places count from 1.

        A bad pair is raised, or handed to `on_bad` and skipped.
        """
        items = iter(self.items)
        first = list(islice(items, 1))
        items = chain(first, items)
        if first and _is_frame(first[0]):
            return good_records(_frame_rows(items, self.reading), on_bad)
        rows = ((f"row {number}", _as_python(item)) for number, item in enumerate(items, 1))
        return good_records(parse_records(rows, self.reading, FileReport(""), self.classes), on_bad)


def objects_in(pairs: Any, reading: FileReading = FileReading()) -> Objects:
    """Check that an object may hold pairs. Raises: InputError, PairsError."""
    kind = f"pairs is of the class {type(pairs).__name__}, which holds"
    if isinstance(pairs, Mapping):
        pairs = _frame_of_columns(pairs, kind)
    if hasattr(pairs, "read_all"):  # a reader of Arrow, as DuckDB gives
        pairs = pairs.read_all()
    if _is_frame(pairs):
        names, cells = _columns_of(pairs)
        pick_columns(reading, names)
        return Objects([pairs], reading, len(cells[0]))
    if not _may_hold_pairs(pairs):
        raise InputError(
            f"{kind} no pairs",
            "give a list of texts or of (text, text), a data frame, or a file's path",
        )
    if hasattr(pairs, "select_columns"):
        pairs = _columns_to_read(pairs, reading)
    total = len(pairs) if isinstance(pairs, Sized) else None
    return Objects(items=pairs, reading=reading, total=total, classes=_classes_of(pairs))


def _columns_to_read(data_set: Any, reading: FileReading) -> Any:
    """The columns of a data set of Hugging Face that are read, so that no image is decoded.

    Its rows are objects of Python, whichever format it was set to: the numbers of classes would be
    tensors. A stream may not know its columns.
    """
    data_set = data_set.with_format(None)
    names = data_set.column_names
    if not names:
        return data_set
    places = pick_columns(reading, names).places
    return data_set.select_columns([names[place] for place in places])


def _classes_of(pairs: Any) -> Classes | None:
    """The names of classes that a data set of Hugging Face has for its numbers."""
    features = getattr(pairs, "features", None)
    if not isinstance(features, Mapping):
        return None
    with_names = {name: getattr(feature, "names", None) for name, feature in features.items()}
    return {name: list(names) for name, names in with_names.items() if isinstance(names, list)}


def _frame_of_columns(pairs: Mapping[Any, Any], kind: str) -> Any:
    """A data frame of a dict of lists. Raises: InputError."""
    import pandas as pd

    if any(hasattr(value, "select_columns") for value in pairs.values()):
        raise InputError(f"{kind} splits", f"choose one: [{next(iter(pairs))!r}]")
    try:
        return pd.DataFrame(dict(pairs), dtype=object)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{kind} no table: {error}", "give a list of dicts, or a dict of lists"
        ) from None


def _may_hold_pairs(pairs: Any) -> bool:
    """Whether it can be gone through, and is neither one value nor a reader that works lazily."""
    is_lazy = getattr(pairs, "batch_sampler", None) or hasattr(pairs, "compute")  # torch, Dask
    if is_lazy or not isinstance(pairs, Iterable):
        return False
    if isinstance(pairs, str | bytes | type | io.IOBase | os.PathLike):
        return False
    return getattr(pairs, "ndim", 1) in (1, 2)


def _is_frame(item: Any) -> bool:
    """Whether it is a data frame: of pandas, or of a library that hands out Arrow's columns."""
    is_lazy = hasattr(item, "compute")
    has_columns = hasattr(item, "columns") or hasattr(item, "schema")
    has_cells = hasattr(item, "iloc") or hasattr(item, "__arrow_c_stream__")
    return has_cells and has_columns and not is_lazy


def _columns_of(frame: Any) -> tuple[list[str], Sequence[Any]]:
    """The names of a data frame's columns, and their cells."""
    if hasattr(frame, "iloc"):
        cells = [frame.iloc[:, place] for place in range(len(frame.columns))]
        return [str(name) for name in frame.columns], cells
    with needs(f"reading a {type(frame).__name__} needs pyarrow", "parquet", InputError):
        import pyarrow as pa
    table = pa.table(frame)
    return table.column_names, table.columns


def _frame_rows(frames: Iterable[Any], reading: FileReading) -> Rows:
    """The records of data frames, one frame after the other."""
    numbers = count(1)
    for frame in frames:
        if not _is_frame(frame):
            where = f"row {next(numbers)}"
            yield bad_record(where, "it is no data frame, as what came before it is")
            continue
        names, cells = _columns_of(frame)
        columns = pick_columns(reading, names, class_names(getattr(frame, "schema", None)))
        values = [map(_as_python, cells[place]) for place in columns.places]
        for row, number in zip(zip(*values, strict=True), numbers, strict=False):
            by_place = dict(zip(columns.places, row, strict=True))
            yield columns.record(f"row {number}", "", number, by_place)


def _as_python(item: Any) -> Any:
    """A scalar of Arrow, a named tuple, a row of pandas, or an array, as objects of Python."""
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "_asdict"):
        return {name: cell for name, cell in item._asdict().items() if name != "Index"}
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    if hasattr(item, "tolist") and getattr(item, "ndim", 0) == 1:
        return item.tolist()
    return item
