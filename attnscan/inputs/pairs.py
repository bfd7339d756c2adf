"""Pairs of sentences, and the files that they are read from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING

from attnscan.errors import InputError, PairsError
from attnscan.hashing import hashed
from attnscan.inputs.columns import MAX_BYTES, FileReading, OnNote, Row, Rows, bad_record
from attnscan.inputs.formats.conllu import conllu_rows, is_conllu
from attnscan.inputs.formats.delimited import csv_rows, first_line, text_rows, tsv_rows
from attnscan.inputs.formats.json_records import are_lines, document_rows, line_rows
from attnscan.inputs.formats.lines import Lines, whole
from attnscan.inputs.places.files import called, files_named, format_of, local_files, opened, unpacked
from attnscan.inputs.places.names import ARROW, PARQUET, SHEETS, shown, suffix_in
from attnscan.inputs.sentence import Sentence

if TYPE_CHECKING:
    from attnscan.inputs.formats.columnar import RowGroups

OnBad = Callable[[PairsError], None]
"""Is handed each bad record in place of an error; reading goes on after it."""

_BY_LINES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")


@dataclass(frozen=True, init=False)
class Pair:
    """One input: sentence A, and sentence B if there are two.

    Raises: InputError if a sentence is blank, has a NUL character, or is not text that can be written as UTF-8.
    """

    sentences: tuple[Sentence, ...]
    """The one or two sentences."""

    def __init__(self, a: str | Sentence, b: str | Sentence | None = None) -> None:
        given = (a,) if b is None else (a, b)
        sentences = tuple([text if isinstance(text, Sentence) else Sentence(text) for text in given])
        object.__setattr__(self, "sentences", sentences)
        for name, text in zip("AB", self.texts, strict=False):
            if not text.strip():
                raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
            if "\0" in text:
                raise InputError(f"sentence {name} has a NUL character", "leave it out")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise _not_unicode(name, text[error.start], error.start + 1) from None

    @property
    def source(self) -> Pair:
        """Sentence A alone: of a translation, what the encoder reads."""
        return Pair(self.sentences[0])

    @property
    def a(self) -> str:
        """The text of sentence A."""
        return self.sentences[0].text

    @property
    def b(self) -> str | None:
        """The text of sentence B; None if there is none."""
        return self.sentences[1].text if len(self.sentences) > 1 else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of the one or two sentences."""
        return tuple([sentence.text for sentence in self.sentences])

    @property
    def key(self) -> str:
        """The hash that identifies the pair on every machine: equal pairs have equal keys. 64 hexadecimal digits."""
        return self.key_after()

    def key_after(self, *texts: str) -> str:
        """Hash the pair together with texts before it: a seed to draw by, or the hash of all pairs read so far."""
        parts = (part for sentence in self.sentences for part in sentence.parts)
        return hashed(*(text.encode() for text in texts), *parts)


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
    """Where a pair comes from, by which its scores can be joined with the input."""

    file: str = ""
    """The file, as it was named; empty for a pair from no file."""
    row: int = 0
    """The number of the record in it, from 1, bad and skipped records counted."""
    id: str | None = None
    """The cell of the column of ids, if one was named."""


@dataclass(frozen=True)
class Record:
    """A pair and where it was read."""

    pair: Pair
    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`; both counted from 1."""
    label: str | None = None
    """The cell of the column `label`, if that was asked for and is there."""
    place: Place = Place()


def read_pairs(
    paths: Sequence[str],
    reading: FileReading = FileReading(),
    on_bad: OnBad | None = None,
    on_note: OnNote = lambda _: None,
) -> Iterator[Record]:
    """Read the pairs of files as a stream; `paths` are names as `places/files.py` takes them.

    A file's suffixes say its format and compression (`names.FORMATS`, `names.PACKED`); of standard input, the first
    line says the format. `on_note` is told how a file is read where that is a guess. A bad record is raised, or handed
    to `on_bad`, after which reading goes on.

    Raises: PairsError, at once if a file is not there, later for a bad record or a damaged file.
    """
    files = [(file, format_of(file)) for file in files_named(paths)]
    return _of_files(files, reading, on_bad, on_note)


def shipped_pairs() -> Iterator[Record]:
    """The 102 pairs that attnscan ships."""
    with resources.files("attnscan.inputs").joinpath("data", "pairs.csv").open("rb") as file:
        yield from pairs_in(file, "attnscan/inputs/data/pairs.csv")


def lines_of_stdin(on_bad: OnBad | None = None) -> Iterator[Record]:
    """Read standard input, an input a line: a sentence, or A and B with a tab between. Blank lines are skipped.

    Raises: PairsError if it is closed; or for a line that is no input, unless that is handed to `on_bad`.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise PairsError("standard input is closed", "pipe sentences into it, a line each")
    lines = Lines(sys.stdin.buffer, "standard input")
    for line in whole(lines, lines):
        try:
            if isinstance(line, PairsError):
                raise line
            if line.strip():
                place = Place("standard input", lines.number)
                yield Record(_line_pair(line, lines.where), lines.where, place=place)
        except PairsError as error:
            if on_bad is None:
                raise
            on_bad(error)


def _line_pair(line: str, where: str) -> Pair:
    sentences = line.rstrip("\r\n").split("\t")
    if len(sentences) > 2:
        raise PairsError(f"{where}: {len(sentences)} sentences in a line", "give one, or two with one tab between")
    try:
        return Pair(*sentences)
    except InputError as error:
        raise PairsError(f"{where}: {error.what}", error.remedy) from None


def about_how_many(paths: Sequence[str], reading: FileReading = FileReading()) -> int | None:
    """About how many pairs the files hold, for the time left: their rows by lines, and so too many where cells have
    line breaks. None where that is not known without reading the files; without paths, the pairs that attnscan ships.
    """
    if not paths:
        return sum(1 for _ in shipped_pairs())
    files = local_files(paths)
    if files is None or not all(file.lower().endswith(_BY_LINES) for file in files):
        return None
    return sum(_about_rows(Path(name), reading) for name in files)


def _about_rows(path: Path, reading: FileReading) -> int:
    """The lines of a text file less those before its first row, which may name the columns."""
    with path.open("rb") as file:
        ends, last = 0, b"\n"
        for chunk in iter(partial(file.read, 1 << 20), b""):
            ends, last = ends + chunk.count(b"\n"), chunk[-1:]
        file.seek(0)
        lines = Lines(file, path.name)
        try:
            rows = _text_rows(lines, path.suffix.lower(), reading, lambda _: None)
            first = next((row.number for row in rows if isinstance(row, Row)), lines.number)
        except PairsError:  # it will be met again
            return ends
        return ends + (last != b"\n") - (lines.number - first)


def pairs_in(
    file: IO[bytes],
    name: str,
    reading: FileReading = FileReading(),
    on_bad: OnBad | None = None,
    on_note: OnNote = lambda _: None,
    groups: RowGroups | None = None,
) -> Iterator[Record]:
    """Read the pairs of an open file, or of some row groups of a Parquet file.

    Its name says its format, and stands in errors.
    Raises: PairsError as `read_pairs` does.
    """
    name, suffix = shown(name), suffix_in(name)
    return _records(_rows(file, name, suffix, reading, on_note, groups), name, on_bad)


def _of_files(
    files: Sequence[tuple[str, str]], reading: FileReading, on_bad: OnBad | None, on_note: OnNote
) -> Iterator[Record]:
    for file, suffix in files:
        with opened(file) as stream:
            name = called(file)
            yield from _records(_rows(stream, name, suffix, reading, on_note), name, on_bad)


def _records(rows: Rows, name: str, on_bad: OnBad | None) -> Iterator[Record]:
    for row in rows:
        try:
            if isinstance(row, PairsError):
                raise row
            yield _record(row, name)
        except PairsError as error:
            if on_bad is None:
                raise
            on_bad(error)


def _rows(
    file: IO[bytes], name: str, suffix: str, reading: FileReading, note: OnNote, groups: RowGroups | None = None
) -> Rows:
    with unpacked(file, name, suffix) as stream:
        if suffix in (*PARQUET, *ARROW, *SHEETS):
            yield from _binary_rows(stream, name, suffix, reading, note, groups)
        else:
            yield from _text_rows(Lines(stream, name), suffix, reading, note)


def _binary_rows(
    stream: IO[bytes], name: str, suffix: str, reading: FileReading, note: OnNote, groups: RowGroups | None
) -> Rows:
    if suffix in SHEETS:
        from attnscan.inputs.formats.workbook import xlsx_rows

        return xlsx_rows(stream, name, reading, note)
    from attnscan.inputs.formats.columnar import arrow_rows, parquet_rows

    return parquet_rows(stream, name, reading, groups) if suffix in PARQUET else arrow_rows(stream, name, reading)


def _text_rows(lines: Lines, suffix: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a text by its format; without a suffix, the first line tells that."""
    match suffix or _sniffed(lines):
        case ".csv":
            return csv_rows(lines, reading, note)
        case ".tsv":
            return tsv_rows(lines, reading, note)
        case ".txt":
            return text_rows(lines, reading, note)
        case ".conllu":
            return conllu_rows(lines)
        case ".json":
            return (line_rows if are_lines(lines) else document_rows)(lines, reading)
        case _:
            return line_rows(lines, reading)


def _sniffed(lines: Lines) -> str:
    first = first_line(lines).lstrip()
    if is_conllu(first):
        return ".conllu"
    if first[:1] in ("{", "["):
        return ".json" if first[:1] == "[" or first.strip() == "{" else ".jsonl"
    return ".tsv" if "\t" in first else ".csv"


def _record(row: Row, name: str) -> Record:
    texts: list[str | Sentence] = []
    for sentence, cell in zip("AB", row.sentences, strict=False):
        if not isinstance(cell, str | Sentence):
            raise bad_record(row.where, f"sentence {sentence} is {'missing' if cell is None else 'not text'}")
        if isinstance(cell, str) and len(cell) > MAX_BYTES:
            raise bad_record(row.where, f"sentence {sentence} is longer than {MAX_BYTES >> 20} MiB")
        texts.append(cell)
    try:
        pair = Pair(*texts)
    except InputError as error:
        raise bad_record(row.where, error.what) from None
    label, key = (None if cell is None else str(cell) for cell in (row.label, row.id))
    return Record(pair, row.where, label, Place(name, row.number, key))
