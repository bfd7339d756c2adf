"""Pairs of sentences: what attnscan reads, and the files that they come from."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import IO, cast

from attnscan.errors import InputError, PairsError
from attnscan.inputs.descriptors import open_file
from attnscan.inputs.readers import STDIN, TEXT, Pick, Row, bad_record, rows, suffix_in

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

_LONGEST_LINE = 1 << 20

LABEL = "label"
"""The column that says which class a pair is of, for those who ask."""

_SEPARATORS = ",;\t|"
_REMEDY = "name one or two of them with --columns, or say which, counted from 1"


@dataclass(frozen=True)
class Pair:
    """One input: sentence A, and sentence B if there are two.

    Raises: InputError if a sentence is blank or is not text that can be written as UTF-8.
    """

    a: str
    b: str | None = None

    def __post_init__(self) -> None:
        for name, sentence in zip("AB", self.sentences, strict=False):
            if not sentence.strip():
                raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
            try:
                sentence.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"sentence {name} is not valid Unicode: its character {error.start + 1} is half of a pair",
                    "save or paste the text as UTF-8",
                ) from None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The one or two sentences."""
        return (self.a,) if self.b is None else (self.a, self.b)


@dataclass(frozen=True)
class Record:
    """A pair and where it was read."""

    pair: Pair
    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`; both counted from 1."""
    label: str | None = None
    """What the column `label` says of it, if that was asked for and is there."""


def read_pairs(
    paths: Sequence[str],
    columns: Sequence[str] | None = None,
    on_bad: Callable[[PairsError], None] | None = None,
    *,
    labelled: bool = False,
) -> Iterator[Record]:
    """The pairs of files, one after another, as a stream; `-` is standard input.

    The files' suffixes tell their formats: `readers.TEXT`, with .gz or without, and `readers.PARQUET`;
    the first line of standard input does. `columns` names the one or two columns that hold the
    sentences, or counts them from 1; without it, they are the first of `COLUMNS` that a file has, or
    the only column it has. A bad record is raised, or handed to `on_bad`, after which reading goes on.
    With `labelled`, records carry what a column `label` says, where there is one.

    Raises: PairsError, at once if a file is not there, later for a bad record or a damaged file.
    """
    if columns is not None and len(columns) not in (1, 2):
        raise PairsError(f"{len(columns)} columns were named", "name one, or two for pairs")
    if list(paths).count(STDIN) > 1:
        raise PairsError("standard input is named twice", "it can be read only once")
    files = [(path, _suffix_of(path)) for path in paths]
    picked = _Columns(columns, labelled)
    return _records((row for path, suffix in files for row in _file_rows(path, suffix, picked)), picked, on_bad)


def shipped_pairs() -> Iterator[Record]:
    """The pairs that come with attnscan, about 100."""
    with resources.files("attnscan.inputs").joinpath("data", "pairs.csv").open("rb") as file:
        yield from pairs_in(file, "attnscan/inputs/data/pairs.csv")


def lines_of_stdin(on_bad: Callable[[PairsError], None] | None = None) -> Iterator[Record]:
    """Standard input, an input a line: a sentence, or A and B with a tab between. Blank lines are left out.

    Raises: PairsError if it is closed; or for a line that is no input, unless that is handed to `on_bad`.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise PairsError("standard input is closed", "pipe sentences into it, a line each")
    for number, line in enumerate(iter(partial(sys.stdin.buffer.readline, _LONGEST_LINE), b""), 1):
        where = f"standard input:{number}"
        try:
            if len(line) == _LONGEST_LINE:
                raise PairsError(f"{where}: a line is longer than {_LONGEST_LINE:,} bytes", "give one input a line")
            if line.strip():
                yield Record(_line_pair(line, where), where)
        except PairsError as error:
            if on_bad is None or len(line) == _LONGEST_LINE:
                raise
            on_bad(error)


def _line_pair(line: bytes, where: str) -> Pair:
    try:
        sentences = line.decode("utf-8-sig").rstrip("\r\n").split("\t")
    except UnicodeDecodeError:
        raise PairsError(f"{where}: the line is not UTF-8", "save it as UTF-8") from None
    if len(sentences) > 2:
        raise PairsError(f"{where}: {len(sentences)} sentences in a line", "give one, or two with one tab between")
    try:
        return Pair(*sentences)
    except InputError as error:
        raise PairsError(f"{where}: {error.what}", error.remedy) from None


def about_how_many(paths: Sequence[str]) -> int | None:
    """Roughly how many pairs the files hold, to tell the time left; None where that cannot be had cheaply.

    Without paths, how many come with attnscan.
    """
    if not paths:
        return sum(1 for _ in shipped_pairs())
    total = 0
    for path in paths:
        # counting must not empty a pipe, and a name too long is no file
        if Path(path).suffix.lower() not in TEXT or not os.path.isfile(path):  # noqa: PTH113
            return None
        with Path(path).open("rb") as file:
            total += sum(chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 20), b""))
    return total


def pairs_in(
    file: IO[bytes],
    name: str,
    columns: Sequence[str] | None = None,
    on_bad: Callable[[PairsError], None] | None = None,
) -> Iterator[Record]:
    """The pairs of one file that is open, wherever it is; its name tells its format, and is what errors say.

    Raises: PairsError as `read_pairs` does.
    """
    picked = _Columns(columns)
    return _records(_opened_rows(lambda: nullcontext(file), name, suffix_in(name), picked), picked, on_bad)


def _records(
    found: Iterable[Row | PairsError], columns: _Columns, on_bad: Callable[[PairsError], None] | None
) -> Iterator[Record]:
    for row in found:
        try:
            record = columns.record(row)
        except PairsError as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            yield record


def _file_rows(path: str, suffix: str, pick: Pick) -> Iterator[Row | PairsError]:
    if path != STDIN:
        return _opened_rows(lambda: Path(path).open("rb"), path, suffix, pick)
    if sys.stdin is None or sys.stdin.closed:  # the shell's `<&-`
        raise PairsError("standard input is closed", "pipe pairs into it, or name a file")
    return _opened_rows(lambda: nullcontext(sys.stdin.buffer), "standard input", suffix, pick)


def _opened_rows(
    opened: Callable[[], AbstractContextManager[IO[bytes]]], name: str, suffix: str, pick: Pick
) -> Iterator[Row | PairsError]:
    try:
        with opened() as file:
            if not name.lower().endswith(".gz"):
                yield from rows(file, name, suffix, pick)
            elif not file.peek(1):  # type: ignore[attr-defined]
                raise PairsError(f"{name} is empty", "gzip writes some bytes even for an empty file")
            else:
                yield from rows(cast(IO[bytes], gzip.GzipFile(fileobj=file)), name, suffix, pick)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PairsError(f"{name} is not a whole gzip file: {error}", "copy or compress it again") from None
    except OSError as error:
        raise PairsError(f"cannot read {name}: {error.strerror or error}", "check the file") from None


def _suffix_of(path: str) -> str:
    """What tells the format of a path: its suffix without .gz; none for standard input and other pipes.

    Raises: PairsError if there is no such file, or its suffix is not known.
    """
    if path == STDIN:
        return ""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise PairsError(f"there is no file {path}", "check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PairsError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", "check the path") from None
    if stat.S_ISDIR(mode):
        raise PairsError(f"{path} is a directory", "name a file in it")
    if not Path(path.lower().removesuffix(".gz")).suffix and (not stat.S_ISREG(mode) or open_file(Path(path))):
        return ""  # what a shell's <(command) is, and /dev/stdin
    return suffix_in(path)


class _Columns:
    """The columns that hold the sentences and, in front of them where labels are asked for, one called `label`."""

    def __init__(self, wanted: Sequence[str] | None, labelled: bool = False) -> None:
        self._wanted, self._labelled, self._has_label = wanted, labelled, False

    def __call__(self, names: Sequence[str], fixed: bool) -> Sequence[int]:
        picked = _pick(self._wanted, names, fixed)
        labels = [index for index, name in enumerate(names) if _folded(name) == LABEL and index not in picked]
        self._has_label = self._labelled and bool(labels)
        return [labels[0], *picked] if self._has_label else picked

    def record(self, row: Row | PairsError) -> Record:
        """A row of the file whose columns were picked last."""
        if isinstance(row, PairsError):
            raise row
        label, *cells = row.cells if self._has_label else (None, *row.cells)
        texts = []
        for name, cell in zip("AB", cells, strict=False):
            if not isinstance(cell, str):
                raise bad_record(row.where, f"sentence {name} is {'missing' if cell is None else 'not text'}")
            if "\0" in cell:
                raise bad_record(row.where, f"sentence {name} has a NUL character")
            texts.append(cell)
        try:
            return Record(Pair(*texts), row.where, None if label is None else str(label))
        except InputError as error:
            raise bad_record(row.where, error.what) from None


def _pick(wanted: Sequence[str] | None, names: Sequence[str], fixed: bool) -> Sequence[int]:
    """Which columns hold the sentences.

    Raises: PairsError that lists the columns if there are none.
    """
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


def _index(names: Sequence[str], column: str) -> int:
    """The column of just this name, else of this name but for case and spaces, else of this number."""
    exact = [index for index, name in enumerate(names) if name == column]
    close = exact or [index for index, name in enumerate(names) if _folded(name) == _folded(column)]
    if len(close) > 1:
        raise PairsError(f"{len(close)} columns are called {column!r}", "say which with --columns, counted from 1")
    if close:
        return close[0]
    if column.isascii() and column.isdecimal() and len(column) < 6 and 1 <= int(column) <= len(names):
        return int(column) - 1
    raise PairsError(f"there is no column {column!r}; the columns are {_listed(names)}", _REMEDY)


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:20]]
    return ", ".join([*shown, "…"] if len(names) > 20 else shown) or "none"
