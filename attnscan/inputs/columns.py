"""Which columns of a file hold the sentences, by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from attnscan.errors import PairsError

Quoting = Literal["auto", "csv", "none"]

COLUMNS = (
    ("sentence_a", "sentence_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
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
"""The columns that are looked for in a file, ours first, then those of the usual data sets; upper case is the same."""

LABEL = "label"
"""The column that says which class a pair is of, for those who ask."""

_SEPARATORS = ",;\t|"
_REMEDY = "name one or two of them with --columns, or say which, counted from 1"


@dataclass(frozen=True)
class Reading:
    """How files of pairs are read.

    Raises: PairsError if `columns` are not one or two.
    """

    columns: tuple[str, ...] | None = None
    """The one or two that hold the sentences: names, numbers from 1, or paths such as `translation.en` into nested
    ones; None for the first of `COLUMNS` that a file has, or the only one it has."""
    header: bool | None = None
    """Whether the first line of a table names its columns; None to tell by its looks."""
    quoting: Quoting = "auto"
    """Whether quotes around the cells of a CSV or TSV file are its writer's, `csv`, or text, `none`; `auto` to take
    them as text in TSV unless they look otherwise."""
    id: str | None = None
    """The column whose cells tell pairs apart, carried along to each pair's scores."""
    labelled: bool = False
    """Whether what a column `label` says is carried along."""

    def __post_init__(self) -> None:
        if self.columns is not None and len(self.columns) not in (1, 2):
            raise PairsError(f"{len(self.columns)} columns were named", "name one, or two for pairs")


@dataclass(frozen=True)
class Column:
    """A column by its place from 0 and, where its cells are nested, the keys that lead to what is meant."""

    index: int
    keys: tuple[str, ...] = ()

    def within(self, cell: object) -> object:
        """What is meant within a cell; None where there is no such thing. Items of lists are counted from 1."""
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
    """What to read of each row."""

    sentences: tuple[Column, ...]
    id: Column | None = None
    label: Column | None = None

    @property
    def all(self) -> tuple[Column, ...]:
        """Those of the sentences, then the id's and the label's, if they are wanted and there."""
        return (*self.sentences, *(each for each in (self.id, self.label) if each is not None))

    @property
    def indexes(self) -> tuple[int, ...]:
        """The places of the columns, each once."""
        return tuple(dict.fromkeys(each.index for each in self.all))


def picked(reading: Reading, names: Sequence[str], fixed: bool) -> Picked:
    """The columns to read of these names; with `fixed`, every row of the file has just these.

    Raises: PairsError that lists the columns if there are none.
    """
    sentences = tuple(_sentences(reading.columns, names, fixed))
    key = None if reading.id is None else _column(names, reading.id, "--id")
    taken = [each.index for each in sentences]
    labels = [Column(index) for index, name in enumerate(names) if _folded(name) == LABEL and index not in taken]
    return Picked(sentences, key, labels[0] if reading.labelled and labels else None)


def known_among(names: Sequence[str]) -> tuple[str, ...] | None:
    """The first of `COLUMNS` that are all among these names."""
    known = {_folded(name) for name in names}
    return next((columns for columns in COLUMNS if known.issuperset(columns)), None)


def _sentences(wanted: Sequence[str] | None, names: Sequence[str], fixed: bool) -> Sequence[Column]:
    if (columns := wanted or known_among(names)) is not None:
        return [_column(names, column) for column in columns]
    found = f"the only column is {listed(names)}" if len(names) == 1 else f"the columns are {listed(names)}"
    if len(names) != 1:
        raise PairsError(f"{found}, and none is known to hold sentences", _REMEDY)
    if any(separator in names[0] for separator in _SEPARATORS):
        raise PairsError(f"{found}, as if another separator were used", "save it as CSV or TSV, or pass --columns 1")
    if not fixed and any(_folded(names[0]) in columns for columns in COLUMNS if len(columns) == 2):
        raise PairsError(f"{found}, which is half of a pair", "correct it, pass --skip-bad, or name it with --columns")
    return [Column(0)]


def _column(names: Sequence[str], column: str, option: str = "--columns") -> Column:
    """The column of just this name, else of this name but for case and spaces, else of this number, else within one."""
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
    """The number from 1 that a column's name is; None for all others."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 and int(text) else None


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def listed(names: Sequence[str]) -> str:
    """Names, as errors list them."""
    shown = [repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:20]]
    return ", ".join([*shown, "…"] if len(names) > 20 else shown) or "none"
