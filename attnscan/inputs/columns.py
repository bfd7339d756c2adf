"""Which columns of a file hold the sentences, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnscan.errors import PairsError

COLUMNS = (
    ("sentence_a", "sentence_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("text",),
    ("sentence",),
)
"""The columns that are looked for in a file, ours first, then those of the usual data sets."""

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
    """The one or two that hold the sentences: names, or numbers from 1; None for the first of `COLUMNS` that a file
    has, or the only one it has."""
    id: str | None = None
    """The column whose cells tell pairs apart, carried along to each pair's scores."""
    labelled: bool = False
    """Whether what a column `label` says is carried along."""

    def __post_init__(self) -> None:
        if self.columns is not None and len(self.columns) not in (1, 2):
            raise PairsError(f"{len(self.columns)} columns were named", "name one, or two for pairs")


@dataclass(frozen=True)
class Picked:
    """Columns of a file, by their places from 0."""

    sentences: tuple[int, ...]
    id: int | None = None
    label: int | None = None

    @property
    def all(self) -> tuple[int, ...]:
        """Those to be read: of the sentences, then the id's and the label's, if they are wanted and there."""
        return (*self.sentences, *(each for each in (self.id, self.label) if each is not None))


def picked(reading: Reading, names: Sequence[str], fixed: bool) -> Picked:
    """The columns to read of these names; with `fixed`, every row of the file has just these.

    Raises: PairsError that lists the columns if there are none.
    """
    sentences = tuple(_sentences(reading.columns, names, fixed))
    key = None if reading.id is None else _index(names, reading.id, "--id")
    labels = [index for index, name in enumerate(names) if _folded(name) == LABEL and index not in sentences]
    return Picked(sentences, key, labels[0] if reading.labelled and labels else None)


def _sentences(wanted: Sequence[str] | None, names: Sequence[str], fixed: bool) -> Sequence[int]:
    if wanted is not None:
        return [_index(names, column) for column in wanted]
    known = {_folded(name) for name in names}
    for columns in COLUMNS:
        if known.issuperset(columns):
            return [_index(names, column) for column in columns]
    found = f"the only column is {_listed(names)}" if len(names) == 1 else f"the columns are {_listed(names)}"
    if len(names) != 1:
        raise PairsError(f"{found}, and none is known to hold sentences", _REMEDY)
    if any(separator in names[0] for separator in _SEPARATORS):
        raise PairsError(f"{found}, as if another separator were used", "save it as CSV or TSV, or pass --columns 1")
    if not fixed and any(_folded(names[0]) in columns for columns in COLUMNS if len(columns) == 2):
        raise PairsError(f"{found}, which is half of a pair", "correct it, pass --skip-bad, or name it with --columns")
    return [0]


def _index(names: Sequence[str], column: str, option: str = "--columns") -> int:
    """The column of just this name, else of this name but for case and spaces, else of this number."""
    exact = [index for index, name in enumerate(names) if name == column]
    close = exact or [index for index, name in enumerate(names) if _folded(name) == _folded(column)]
    if len(close) > 1:
        raise PairsError(f"{len(close)} columns are called {column!r}", f"say which with {option}, counted from 1")
    if close:
        return close[0]
    if column.isascii() and column.isdecimal() and len(column) < 6 and 1 <= int(column) <= len(names):
        return int(column) - 1
    remedy = _REMEDY if option == "--columns" else f"name one of them with {option}, or say which, counted from 1"
    raise PairsError(f"there is no column {column!r}; the columns are {_listed(names)}", remedy)


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:20]]
    return ", ".join([*shown, "…"] if len(names) > 20 else shown) or "none"
