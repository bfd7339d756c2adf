"""Rows of a file, and the columns that hold the sentences, which are told by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from attnscan.errors import PairsError
from attnscan.inputs.option import Option, check_declared

Quoting = Literal["auto", "csv", "none"]

COLUMNS = (
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
"""The names that are looked for, in any case: attnscan's own first, then those of the usual data sets."""

LABEL = "label"
"""The column that holds each pair's class."""

MAX_BYTES = 16 << 20
"""The largest row that is read, and so the most that is held of a text."""

OnNote = Callable[[str], None]
"""Is told how a file is read where its looks decided."""

_SEPARATORS = ",;\t|"
_REMEDY = "name one or two of them with --columns, or say which, counted from 1"


@dataclass(frozen=True)
class FileReading:
    """How files of pairs are read.

    Raises: PairsError if `columns` are not one or two.
    """

    columns: Annotated[
        tuple[str, ...] | None,
        Option(
            "Columns that hold the sentences: names, numbers or paths.",
            "One or two; numbers count from 1, and a path such as `translation.en` leads into nested ones. "
            "[default: the first of the usual names that is there, or the only column]",
            metavar="A[,B]",
        ),
    ] = None
    header: Annotated[bool | None, Option("Whether the first line names the columns.", "[default: detected]")] = None
    quoting: Annotated[
        Quoting,
        Option("Quotes around cells belong to the format (csv) or to the text (none).", "[default: detected]"),
    ] = "auto"
    id: Annotated[
        str | None,
        Option("Copy this column to --per-pair, to join rows by it.", metavar="COLUMN", general=False),
    ] = None
    labelled: bool = False
    """Whether the cell of a column `label` is kept with each pair."""

    def __post_init__(self) -> None:
        check_declared(self)
        if self.columns is not None and len(self.columns) not in (1, 2):
            raise PairsError(f"{len(self.columns)} columns were named", "name one, or two for pairs")


@dataclass(frozen=True)
class Column:
    """A column: its index from 0 and, where its cells are nested, the keys of the value inside."""

    index: int
    keys: tuple[str, ...] = ()

    def within(self, cell: object) -> object:
        """The value inside a cell; None if a key is not there. Items of lists are counted from 1."""
        for key in self.keys:
            if isinstance(cell, Mapping):
                cell = cell.get(key)
            elif isinstance(cell, list | tuple) and (number := number_of(key)) is not None and number <= len(cell):
                cell = cell[number - 1]
            else:
                return None
        return cell


@dataclass(frozen=True)
class Picked:
    """The columns to read of each row."""

    sentences: tuple[Column, ...]
    id: Column | None = None
    label: Column | None = None

    @property
    def all(self) -> tuple[Column, ...]:
        """The columns of the sentences, then that of the id and of the label, where there is one."""
        return (*self.sentences, *(column for column in (self.id, self.label) if column is not None))

    @property
    def indexes(self) -> tuple[int, ...]:
        """The indexes of the columns, without repeats."""
        return tuple(dict.fromkeys(column.index for column in self.all))


def picked(reading: FileReading, names: Sequence[str], fixed: bool = True) -> Picked:
    """Choose the columns to read by their names; `fixed` says that every row has the same columns.

    Raises: PairsError that lists the columns if there are none.
    """
    sentences = tuple(_sentences(reading.columns, names, fixed))
    key = None if reading.id is None else _column(names, reading.id, "--id")
    taken = [column.index for column in sentences]
    labels = [Column(index) for index, name in enumerate(names) if _folded(name) == LABEL and index not in taken]
    return Picked(sentences, key, labels[0] if reading.labelled and labels else None)


def known_among(names: Sequence[str]) -> tuple[str, ...] | None:
    """The first of `COLUMNS` that are all among these names."""
    known = {_folded(name) for name in names}
    return next((columns for columns in COLUMNS if known.issuperset(columns)), None)


def _sentences(wanted: Sequence[str] | None, names: Sequence[str], fixed: bool) -> Sequence[Column]:
    if (columns := wanted or known_among(names)) is not None:
        return [_column(names, column) for column in columns]
    there = f"the only column is {listed(names)}" if len(names) == 1 else f"the columns are {listed(names)}"
    if len(names) != 1:
        raise PairsError(f"{there}, and none is known to hold sentences", _REMEDY)
    if any(separator in names[0] for separator in _SEPARATORS):
        raise PairsError(f"{there}, as if another separator were used", "save it as CSV or TSV, or pass --columns 1")
    if not fixed and any(_folded(names[0]) in columns for columns in COLUMNS if len(columns) == 2):
        raise PairsError(f"{there}, which is half of a pair", "correct it, pass --skip-bad, or name it with --columns")
    return [Column(0)]


def _column(names: Sequence[str], column: str, option: str = "--columns") -> Column:
    """The column of exactly this name, else up to case and spaces, else of this number, else a path into a column."""
    exact = [index for index, name in enumerate(names) if name == column]
    close = exact or [index for index, name in enumerate(names) if _folded(name) == _folded(column)]
    if len(close) > 1:
        raise PairsError(f"{len(close)} columns are called {column!r}", f"say which with {option}, counted from 1")
    if close:
        return Column(close[0])
    if (number := number_of(column)) is not None and number <= len(names):
        return Column(number - 1)
    outer, _, inner = column.rpartition(".")
    while outer:
        if outer in names:
            return Column(names.index(outer), tuple(inner.split(".")))
        outer, _, key = outer.rpartition(".")
        inner = f"{key}.{inner}"
    remedy = _REMEDY if option == "--columns" else f"name one of them with {option}, or say which, counted from 1"
    raise PairsError(f"there is no column {column!r}; the columns are {listed(names)}", remedy)


def number_of(text: str) -> int | None:
    """A column's name as a number from 1; None if it is no number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 and int(text) else None


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def listed(names: Sequence[str]) -> str:
    """The names as an error lists them: 20 at most, long ones cut."""
    shown = [repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:20]]
    return ", ".join([*shown, "…"] if len(names) > 20 else shown) or "none"


class Row(NamedTuple):
    """The cells of the picked columns, and where they are."""

    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`; both counted from 1."""
    number: int
    """Which of the file's rows it is, from 1, bad ones counted."""
    sentences: tuple[object, ...]
    id: object = None
    label: object = None


Rows = Iterator[Row | PairsError]
"""The rows of a file, and a PairsError in the place of each bad one."""


def row_of(where: str, number: int, columns: Picked, cells: Sequence[object] | Mapping[int, object]) -> Row:
    """Make a row of the picked columns; `cells` are those of the file's row, by index."""
    return Row(
        where,
        number,
        tuple([column.within(cells[column.index]) for column in columns.sentences]),
        None if columns.id is None else columns.id.within(cells[columns.id.index]),
        None if columns.label is None else columns.label.within(cells[columns.label.index]),
    )


def bad_record(where: str, why: str) -> PairsError:
    """The error for a record that `--skip-bad` would skip."""
    return PairsError(f"{where}: {why}", "correct it, or pass --skip-bad to go on without it")
