"""Pairs of sentences: what attnscan reads, and the files that they come from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import IO

from attnscan.errors import InputError, PairsError
from attnscan.inputs.columns import Reading
from attnscan.inputs.formats.found import MAX_BYTES, OnNote, bad_record
from attnscan.inputs.formats.part import WHOLE, Part
from attnscan.inputs.places.compression import unpacked
from attnscan.inputs.places.files import called, files_named, format_of, local_files, opened
from attnscan.inputs.places.names import shown, suffix_in
from attnscan.inputs.readers import Row, rows

_LONGEST_LINE = 1 << 20
_BY_LINES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Pair:
    """One input: sentence A, and sentence B if there are two.

    Raises: InputError if a sentence is blank, has a NUL character, or is not text that can be written as UTF-8.
    """

    a: str
    b: str | None = None

    def __post_init__(self) -> None:
        for name, sentence in zip("AB", self.sentences, strict=False):
            if not sentence.strip():
                raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
            if "\0" in sentence:
                raise InputError(f"sentence {name} has a NUL character", "leave it out")
            try:
                sentence.encode()
            except UnicodeEncodeError as error:
                raise _not_unicode(name, sentence[error.start], error.start + 1) from None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The one or two sentences."""
        return (self.a,) if self.b is None else (self.a, self.b)


def _not_unicode(name: str, character: str, place: int) -> InputError:
    what = f"sentence {name} is not valid Unicode: its character {place} is"
    if not "\udc80" <= character <= "\udcff":
        return InputError(f"{what} half of a pair", "save or paste the text as UTF-8")
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return InputError(f"{what} a byte that is not UTF-8", "save or paste the text as UTF-8")
    # Python keeps bytes that the locale cannot decode as U+DC80 to U+DCFF (PEP 383)
    return InputError(f"{what} not known to the locale, which is {encoding}", "set LC_ALL=C.UTF-8 or PYTHONUTF8=1")


@dataclass(frozen=True, order=True)
class Place:
    """Where the scores of a pair belong, for those who join them with the input."""

    file: str = ""
    """As it was named; empty for what comes from no file."""
    row: int = 0
    """Which of its records, from 1, bad ones and those that are skipped counted."""
    id: str | None = None
    """What the column of ids says of it, if one was named."""


@dataclass(frozen=True)
class Record:
    """A pair and where it was read."""

    pair: Pair
    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`; both counted from 1."""
    label: str | None = None
    """What the column `label` says of it, if that was asked for and is there."""
    place: Place = Place()


def read_pairs(
    paths: Sequence[str],
    reading: Reading = Reading(),
    on_bad: Callable[[PairsError], None] | None = None,
    on_note: OnNote = lambda _: None,
) -> Iterator[Record]:
    """The pairs of files, one after another, as a stream; `paths` are names as `places.py` takes them.

    The files' suffixes tell their formats, `names.FORMATS`, and `names.PACKED` how they are packed; the first
    line of standard input does.
    `on_note` is told how a file is read where its looks decided.
    A bad record is raised, or handed to `on_bad`, after which reading goes on.

    Raises: PairsError, at once if a file is not there, later for a bad record or a damaged file.
    """
    files = [(file, format_of(file)) for file in files_named(paths)]
    found = (_rows(partial(opened, file), called(file), suffix, reading, on_note) for file, suffix in files)
    return _records(chain.from_iterable(found), on_bad)


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
                yield Record(_line_pair(line, where), where, place=Place("standard input", number))
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
    files = local_files(paths)
    if files is None or not all(file.lower().endswith(_BY_LINES) for file in files):
        return None
    total = 0
    for name in files:
        with Path(name).open("rb") as file:
            total += sum(chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 20), b""))
    return total


def pairs_in(
    file: IO[bytes],
    name: str,
    reading: Reading = Reading(),
    on_bad: Callable[[PairsError], None] | None = None,
    on_note: OnNote = lambda _: None,
    part: Part = WHOLE,
) -> Iterator[Record]:
    """The pairs of one file that is open, wherever it is, or of a part of it.

    Its name tells its format, and is what errors say.
    Raises: PairsError as `read_pairs` does.
    """
    return _records(_rows(lambda: nullcontext(file), shown(name), suffix_in(name), reading, on_note, part), on_bad)


def _records(found: Iterable[Row | PairsError], on_bad: Callable[[PairsError], None] | None) -> Iterator[Record]:
    for row in found:
        try:
            record = _record(row)
        except PairsError as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            yield record


def _rows(
    opened: Callable[[], AbstractContextManager[IO[bytes]]],
    name: str,
    suffix: str,
    reading: Reading,
    note: OnNote,
    part: Part = WHOLE,
) -> Iterator[Row | PairsError]:
    with opened() as file, unpacked(file, name, suffix) as stream:
        yield from rows(stream, name, suffix, reading, note, part)


def _record(row: Row | PairsError) -> Record:
    if isinstance(row, PairsError):
        raise row
    texts = []
    for name, cell in zip("AB", row.sentences, strict=False):
        if not isinstance(cell, str):
            raise bad_record(row.where, f"sentence {name} is {'missing' if cell is None else 'not text'}")
        if len(cell) > MAX_BYTES:
            raise bad_record(row.where, f"sentence {name} is longer than {MAX_BYTES >> 20} MiB")
        texts.append(cell)
    try:
        pair = Pair(*texts)
    except InputError as error:
        raise bad_record(row.where, error.what) from None
    label, key = (None if cell is None else str(cell) for cell in (row.label, row.id))
    return Record(pair, row.where, label, Place(row.file, row.number, key))
