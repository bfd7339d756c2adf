"""Files of pairs -> records: names -> files -> lines or cells -> rows -> records with their file and line.

A name is a path, a glob, a directory, `-` for standard input, or an address that fsspec opens; a file's suffix says its
format, and how it is compressed. What is guessed, such as encodings, separators, quotes, or whether a first line names
the columns, is noted where the guess could be wrong, with the option that overrides it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote

from attnscan.errors import InputError, OptionError, PairsError, needs, out_of_memory
from attnscan.inputs.conllu import blocks_of, is_conllu, sentences_of
from attnscan.inputs.option import Option, check_declared
from attnscan.inputs.sentence import Pair, Place, Record, Sentence, bad_record

STDIN = "-"
TABLES = (".parquet", ".pq", ".arrow", ".feather", ".xlsx")
FORMATS = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", *TABLES, ".conllu")
"""The formats, by the suffixes of their files."""
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
"""How a file is compressed, by a suffix that may follow these."""
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

Quoting = Literal["auto", "csv", "none"]
OnBad = Callable[[PairsError], None]
"""Is handed each bad record in place of an error; reading goes on after it."""
OnNote = Callable[[str], None]
"""Is told how a file is read where its looks decided."""

_STORES = ("s3", "gs", "gcs", "http", "https")  # whose packages the extra `stores` installs
_ROWS = 16  # of Parquet at a time: a file of a kilobyte can repeat a long cell a million times
_BUFFER = 1 << 20  # bytes that are asked for at a time: stores answer slowly
_MAX_TEXT = 16 << 20  # characters of a sentence, and of a cell that an open quote swallows
_MAX_REREAD = 16 * _MAX_TEXT  # bytes of one file: else one of open quotes alone would take quadratic time
_SAMPLE = 1000  # lines behind the first quoted cell that show whether quotes are the writer's
_WORDS, _LONGEST_NAME = 5, 60  # words that make a cell a sentence, and characters of a column's name
_REMEDY = "name one or two of them with --columns, or say which, counted from 1"
_WIDE = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_NO_TEXT = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", ".zst"),
    b"\xfd7zXZ\0": ("xz", ".xz"),
    b"PK\3\4": ("a zip file, as .xlsx is", ".xlsx"),
    b"PAR1\x15": ("Parquet", ".parquet"),
}


@dataclass(frozen=True)
class FileReading:
    """How files of pairs are read.

    Raises: PairsError if `columns` are not one or two; OptionError for an encoding that there is not.
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
    encoding: Annotated[
        str | None,
        Option(
            "Encoding of text files, such as cp1252. [default: UTF-8, or UTF-16 by its mark, else Windows-1252]",
            metavar="NAME",
        ),
    ] = None
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
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError, TypeError):
                what = f"there is no text encoding {str(self.encoding)[:40]!r}"
                raise OptionError(what, "give one that Python knows, such as utf-8, cp1252 or gb18030") from None


# Records.


def read_pairs(
    names: Sequence[str],
    reading: FileReading = FileReading(),
    on_bad: OnBad | None = None,
    on_note: OnNote = lambda _: None,
) -> Iterator[Record]:
    """Read the pairs of files as a stream.

    `on_note` is told how a file is read where that is a guess. A bad record is raised, or handed to `on_bad`.

    Raises: PairsError, at once if a file is not there, later for a bad record or a damaged file.
    """
    return _records_of(files_named(names), reading, on_bad, on_note)


def shipped_pairs() -> Iterator[Record]:
    """The 102 pairs that attnscan ships."""
    name = "attnscan/inputs/data/pairs.csv"
    with resources.as_file(resources.files("attnscan.inputs").joinpath("data", "pairs.csv")) as path:
        for record in read_pairs([str(path)]):
            where = record.where.replace(str(path), name)
            yield replace(record, where=where, place=replace(record.place, file=name))


def lines_of_stdin(on_bad: OnBad | None = None, on_note: OnNote = lambda _: None) -> Iterator[Record]:
    """Read standard input, an input a line: a sentence, or A and B with a tab between. Blank lines are skipped.

    `on_note` is told if it is not UTF-8.

    Raises: PairsError if it is closed; or for a line that is no input, unless that is handed to `on_bad`.
    """
    name = called(STDIN)
    with opened(STDIN) as stream:
        lines = enumerate(_lines(stream, name, None, on_note), 1)
        rows = (Row(f"{name}:{at}", at, tuple(_cut(line, "\t"))) for at, line in lines if line.strip())
        yield from _good(rows, name, on_bad)


def about_how_many(names: Sequence[str], reading: FileReading = FileReading()) -> int | None:
    """About how many pairs the files hold, for the time left: their rows by lines, and so too many where cells have
    line breaks. None where that is not known without reading the files; without names, the pairs that attnscan ships.
    """
    if not names:
        return sum(1 for _ in shipped_pairs())
    files = local_files(names)
    countable = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
    if files is None or any(format_of(file) not in countable or packing_of(file) for file in files):
        return None
    return sum(_about_rows(file, reading) for file in files)


def _about_rows(file: str, reading: FileReading) -> int:
    """The lines of a text file less those before its first row, which may name the columns."""
    ends, last = 0, b"\n"
    with Path(file).open("rb") as stream:
        for chunk in iter(partial(stream.read, _BUFFER), b""):
            ends, last = ends + chunk.count(b"\n"), chunk[-1:]
    try:
        bad: list[PairsError] = []
        first = next(_records_of([file], reading, bad.append, lambda _: None), None)
    except PairsError:  # it will be met again
        return ends
    before = 1 if first is None else int(first.where.rpartition(":")[2]) - 1 - len(bad)
    return max(0, ends + (last != b"\n") - before)


def _records_of(files: Sequence[str], reading: FileReading, on_bad: OnBad | None, note: OnNote) -> Iterator[Record]:
    for file in files:
        with opened(file) as stream:
            name, suffix = called(file), format_of(file)
            if suffix == ".xlsx":
                rows = _xlsx_rows(stream, name, reading, note)
            elif suffix in TABLES:
                rows = _columnar_rows(stream, name, suffix, reading)
            else:
                rows = _text_rows(_lines(stream, name, reading.encoding, note), name, suffix, reading, note)
            yield from _good(rows, name, on_bad)


def _good(rows: Rows, name: str, on_bad: OnBad | None) -> Iterator[Record]:
    for row in rows:
        try:
            if isinstance(row, PairsError):
                raise row
            yield _record(row, name)
        except PairsError as error:
            if on_bad is None:
                raise
            on_bad(error)


def _record(row: Row, name: str) -> Record:
    where, sentences, _, row_id, row_label = row.where, row.sentences, row.number, row.id, row.label
    for sentence, cell in zip("AB", sentences, strict=False):
        if isinstance(cell, Mapping) and cell:
            what = f"{where}: sentence {sentence} is an object with the fields {', '.join(map(str, list(cell)[:5]))}"
            raise PairsError(what, "name one or two with --columns, such as translation.en, or pass --skip-bad")
        if not isinstance(cell, str | Sentence):
            raise bad_record(where, f"sentence {sentence} is {'missing' if cell is None else 'not text'}")
        if isinstance(cell, str) and len(cell) > _MAX_TEXT:
            raise bad_record(where, f"sentence {sentence} is longer than {_MAX_TEXT >> 20} MiB")
    if len(sentences) > 2:
        raise bad_record(where, f"{len(sentences)} sentences, and one tab may stand between two")
    try:
        pair = Pair(*sentences)  # type: ignore[arg-type]
    except InputError as error:
        raise bad_record(where, error.what) from None
    label, key = (None if cell is None else str(cell).encode(errors="replace").decode() for cell in (row_label, row_id))
    return Record(pair, where, label, Place(name, row.number, key))


# Names and files.


def scheme_of(name: str) -> str:
    """The scheme of an address, in lower case; empty for a path.

    >>> scheme_of("S3://bucket/a.csv"), scheme_of("data/a.csv")
    ('s3', '')
    """
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", name)
    return match[1].lower() if match else ""


def shown(name: str) -> str:
    """A name without users, passwords and signatures, for messages and results.

    >>> shown("s3://key:secret@bucket/a.csv?region=x"), shown("https://host/a.csv?X-Amz-Signature=1")
    ('s3://bucket/a.csv', 'https://host/a.csv')
    """
    scheme, bare = scheme_of(name), _without_query(name)
    if not scheme or scheme == "hf":  # there, what stands before @ is a repository
        return bare
    if scheme.startswith("abfs"):  # and there a container
        return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1@", bare)
    return re.sub(r"(?<=://)([^/@]*:(?!\d+(/|$)).*|[^/@]*)@", "", bare)


def called(name: str) -> str:
    """The name of a file for messages and results, without secrets."""
    return "standard input" if name == STDIN else shown(name)


def _without_query(name: str) -> str:
    scheme = scheme_of(name)
    pattern = "[?#]" if scheme in ("http", "https") else r"\?\w+="  # of a store, a bare `?` belongs to the name
    return re.split(pattern, name, maxsplit=1, flags=re.ASCII)[0] if scheme else name


def _suffixes(name: str) -> tuple[str, str]:
    """The suffixes that say format and packing, in lower case; the latter is empty if it is none of `PACKED`."""
    path = PurePosixPath(_without_query(name).lower())
    return (path.with_suffix("").suffix, path.suffix) if path.suffix in PACKED else (path.suffix, "")


def packing_of(name: str) -> str:
    """How a file is compressed, as fsspec calls it; empty if its name does not say.

    >>> packing_of("a.csv.GZ"), packing_of("https://host/a.csv?as=a.gz")
    ('gzip', '')
    """
    return PACKED.get(_suffixes(name)[1], "")


def format_of(name: str) -> str:
    """The suffix that says the format of a file; empty for standard input and what has no suffix, such as pipes.

    >>> format_of("data/Pairs.CSV.gz"), format_of("https://host/pairs.parquet?download=true"), format_of("/dev/fd/63")
    ('.csv', '.parquet', '')

    Raises: PairsError if it is not known.
    """
    suffix, _ = _suffixes(name)
    if name == STDIN or suffix in FORMATS or (not suffix and not scheme_of(name)):
        return suffix
    what = f"cannot tell the format of {shown(name)} from its suffix"
    raise PairsError(what, f"use one of {' '.join(FORMATS)}, with {' '.join(PACKED)} behind it or without")


def files_named(names: Sequence[str]) -> list[str]:
    """Every file that is named, in the names' order; those of a glob or a directory are sorted.

    A directory means every file below it whose suffix is known and whose path has no part that begins with a dot.

    Raises: PairsError if a name stands for no file, or a suffix for no format.
    """
    if list(names).count(STDIN) > 1:
        raise PairsError("standard input is named twice", "it can be read only once")
    files = [file for name in names for file in _files(name)]
    for file in files:
        format_of(file)
    return files


def local_files(names: Sequence[str]) -> list[str] | None:
    """The files that are named, if all are on this machine and can be read repeatedly; else None.

    Raises: PairsError as `files_named` does.
    """
    if any(name == STDIN or scheme_of(name) not in ("", "file") for name in names):
        return None
    files = files_named(names)
    return files if all(map(os.path.isfile, files)) else None


def path_of(name: str) -> str:
    """The path of a `file://`. Raises: PairsError if it is on another machine."""
    host, slash, path = name.partition("://")[2].partition("/")
    if host not in ("", "localhost"):
        raise PairsError(f"cannot read {shown(name)}: its file is on another machine", "write file:/// and the path")
    return unquote(f"{slash}{path}")


def _files(name: str) -> list[str]:
    if name == STDIN:
        return [name]
    if scheme_of(name) not in ("", "file"):
        if re.search(r"[*?\[]", _without_query(name)):
            raise PairsError(f"{shown(name)} is not one file", "name each file in full")
        return [name]
    path = path_of(name) if scheme_of(name) else name
    try:
        if os.path.isdir(path):  # noqa: PTH112 (a name may be empty)
            files = list(_below(path))
        elif not path or os.path.exists(path) or not (pattern := re.search(r"[*?\[]", path)):  # noqa: PTH110
            Path(path or "\0").stat()
            return [path]
        else:
            start = path.rfind("/", 0, pattern.start()) + 1
            files = [str(file) for file in Path(path[:start]).glob(path[start:]) if file.is_file()]
    except FileNotFoundError:
        raise PairsError(f"there is no file {path}", "check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PairsError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", "check the path") from None
    if not files:
        raise PairsError(f"there is no file of pairs by the name of {shown(name)}", "check the path")
    return sorted(files)


def _below(start: str) -> Iterator[str]:
    """The files of pairs in a directory and those below; no directory is entered by a link."""

    def stop(error: OSError) -> None:
        raise error

    for directory, below, names in os.walk(start, onerror=stop):
        below[:] = [name for name in below if not name.startswith(".")]
        for file in (os.path.join(directory, name) for name in names if not name.startswith(".")):  # noqa: PTH118
            if _suffixes(file)[0] in FORMATS and os.path.isfile(file):  # noqa: PTH113
                yield file


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, decompressed as its name says; held in memory if it must be and cannot be sought.

    Raises: PairsError if it cannot be opened or read; this replaces what a format's or a store's library raises then.
    """
    scheme, packing, unpacks = scheme_of(name), packing_of(name), False
    try:
        with ExitStack() as stack:
            stream = _opened(name, stack)
            if unpacks := bool(packing):
                from fsspec.compression import compr

                if packing not in compr:
                    what = f"reading {called(name)} needs backports.zstd, which is not installed"
                    raise PairsError(what, "run: pip install 'attnscan[zstd]'")
                stream = compr[packing](stream, mode="rb")
            if format_of(name) in TABLES and (packing or not stream.seekable()):
                stream = io.BytesIO(stream.read())
            yield stream
    except Exception as error:  # each library and store raises its own kinds
        if isinstance(error, PairsError) or out_of_memory(error):
            raise
        if isinstance(error, OSError) and error.errno and not scheme:
            raise PairsError(f"cannot read {called(name)}: {error.strerror or error}", "check the file") from None
        if unpacks:
            what = f"{called(name)} is not a whole {packing} file: {error}"
            raise PairsError(what, "copy or compress it again") from None
        if not scheme:
            raise
        missing = isinstance(error, ImportError) and scheme in _STORES
        remedy = "run: pip install 'attnscan[stores]'" if missing else "check the address, and that you may read it"
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        why = re.sub(r"\w+://[^\s'\"]+", lambda address: shown(address[0]), why)[:200]
        raise PairsError(f"cannot read {shown(name)}: {why}", remedy) from None


def _opened(name: str, stack: ExitStack) -> Any:
    if name == STDIN:
        if sys.stdin is None or sys.stdin.closed:  # the shell's `<&-`
            raise PairsError("standard input is closed", "pipe pairs into it, or name a file")
        return sys.stdin.buffer
    if scheme_of(name):
        import fsspec

        return io.BufferedReader(stack.enter_context(fsspec.open(name, "rb")), _BUFFER)
    about = Path(name).stat()
    if stat.S_ISCHR(about.st_mode) and about.st_rdev != Path(os.devnull).stat().st_rdev:
        raise PairsError(f"{called(name)} is a device, which may have no end", "name a file, or pipe pairs into -")
    return stack.enter_context(Path(name).open("rb"))


# Lines.


def _lines(stream: IO[bytes], name: str, encoding: str | None, note: OnNote) -> Iterator[str]:
    """The lines of a stream, decoded, with their ends.

    They are UTF-8, or UTF-16 or UTF-32 by their mark, or of the encoding that was asked for. A line that is not UTF-8
    is Windows-1252, of which `note` is told, unless a line before it is UTF-8 beyond ASCII: then it is damaged. Bytes
    that cannot be decoded are kept as U+DC80 to U+DCFF, which no sentence may have.

    Raises: PairsError for a file of another kind.
    """
    line = stream.readline()
    for mark, (kind, suffix) in _NO_TEXT.items():
        if line.startswith(mark):
            raise PairsError(f"{name} is {kind}", f"unpack it first, or let its name end in {suffix}")
    wide = next((codec for mark, codec in _WIDE.items() if line.startswith(mark)), None)
    if wide or codecs.lookup(encoding or "utf-8").name.startswith(("utf-16", "utf-32")):
        codec = wide or encoding or ""
        try:  # its line ends are no bytes, so it is read whole
            yield from io.StringIO((line + stream.read()).decode(codec, "surrogatepass").lstrip("\ufeff"), newline="\n")
        except UnicodeDecodeError as error:
            what = f"{name} is not valid {codec.upper()} at byte {error.start + 1}"
            raise PairsError(what, "save it again, or pass --encoding NAME") from None
        return
    line = line.removeprefix(b"\xef\xbb\xbf")
    may_be_windows, is_windows = encoding is None, False
    while line:
        try:
            text = line.decode(encoding or "utf-8")
            may_be_windows = may_be_windows and line.isascii()
        except UnicodeDecodeError:
            windows = _as_windows(line) if may_be_windows else None
            if windows and not is_windows:
                is_windows = True
                note(f"{name}: it is not UTF-8, and is read as Windows-1252 (--encoding NAME if it is not)")
            text = windows or line.decode("ascii" if encoding else "utf-8", "surrogateescape")
        yield text
        line = stream.readline()


def _as_windows(line: bytes) -> str | None:
    """A line that is not UTF-8 as Windows-1252 has it; None if that has no such bytes, or most of it is UTF-8."""
    beyond = [character for character in line.decode("utf-8", "surrogateescape") if character > "\x7f"]
    if 2 * sum("\udc80" <= character <= "\udcff" for character in beyond) <= len(beyond):
        return None
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:
        return None


def _cut(line: str, between: str) -> list[str]:
    return line.removesuffix("\n").removesuffix("\r").split(between)


# Rows, and the columns that are read of them.


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


class Column(NamedTuple):
    """A column: its place from 0 and, where its cells are nested, the keys of the value inside."""

    at: int
    keys: tuple[str, ...] = ()

    def of(self, cells: Sequence[Any] | Mapping[int, Any]) -> Any:
        """The value in a row's cells; None if a key is not there. Items of lists are counted from 1."""
        cell = cells[self.at]
        for key in self.keys:
            if isinstance(cell, Mapping):
                cell = cell.get(key)
            elif isinstance(cell, list | tuple) and (number := _number(key)) is not None and number <= len(cell):
                cell = cell[number - 1]
            else:
                return None
        return cell


class Picked(NamedTuple):
    """The columns to read of each row."""

    sentences: tuple[Column, ...]
    id: Column | None = None
    label: Column | None = None

    @property
    def indexes(self) -> tuple[int, ...]:
        """The indexes of the columns, without repeats."""
        columns = (*self.sentences, *(column for column in (self.id, self.label) if column is not None))
        return tuple(dict.fromkeys(column.at for column in columns))

    def row(self, where: str, number: int, cells: Sequence[object] | Mapping[int, object]) -> Row:
        """The row of a file's cells, by index."""
        id_, label = (None if column is None else column.of(cells) for column in (self.id, self.label))
        return Row(where, number, tuple([column.of(cells) for column in self.sentences]), id_, label)


def picked(reading: FileReading, names: Sequence[str], fixed: bool = True) -> Picked:
    """Choose the columns to read by their names; `fixed` says that every row has the same columns.

    Raises: PairsError that lists the columns if there are none.
    """
    wanted = reading.columns or _known_among(names)
    sentences = tuple(_column(names, name) for name in wanted) if wanted else (_only(names, fixed),)
    id_column = None if reading.id is None else _column(names, reading.id, "--id")
    taken = [column.at for column in sentences]
    labels = [Column(i) for i, name in enumerate(names) if _folded(name) == "label" and i not in taken]
    return Picked(sentences, id_column, labels[0] if reading.labelled and labels else None)


def _known_among(names: Sequence[str]) -> tuple[str, ...] | None:
    known = {_folded(name) for name in names}
    return next((columns for columns in COLUMNS if known.issuperset(columns)), None)


def _only(names: Sequence[str], fixed: bool) -> Column:
    if len(names) != 1:
        raise PairsError(f"the columns are {_listed(names)}, and none is known to hold sentences", _REMEDY)
    there = f"the only column is {_listed(names)}"
    if any(separator in names[0] for separator in ",;\t|"):
        raise PairsError(f"{there}, as if another separator were used", "save it as CSV or TSV, or pass --columns 1")
    if not fixed and any(_folded(names[0]) in columns for columns in COLUMNS if len(columns) == 2):
        raise PairsError(f"{there}, which is half of a pair", "correct it, pass --skip-bad, or name it with --columns")
    return Column(0)


def _column(names: Sequence[str], column: str, option: str = "--columns") -> Column:
    """The column of exactly this name, else up to case and spaces, else of this number, else a path into a column."""
    exact = [index for index, name in enumerate(names) if name == column]
    close = exact or [index for index, name in enumerate(names) if _folded(name) == _folded(column)]
    if len(close) > 1:
        raise PairsError(f"{len(close)} columns are called {column!r}", f"say which with {option}, counted from 1")
    if close:
        return Column(close[0])
    if (number := _number(column)) is not None and number <= len(names):
        return Column(number - 1)
    keys = column.split(".")
    for length in range(len(keys) - 1, 0, -1):
        if (outer := ".".join(keys[:length])) in names:
            return Column(names.index(outer), tuple(keys[length:]))
    remedy = _REMEDY if option == "--columns" else f"name one of them with {option}, or say which, counted from 1"
    raise PairsError(f"there is no column {column!r:.60}; the columns are {_listed(names)}", remedy)


def _number(text: str) -> int | None:
    """A column's name as a number from 1; None if it is no number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 and int(text) else None


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def _listed(names: Sequence[str]) -> str:
    """The names as an error lists them: 20 at most, long ones cut."""
    listed = [repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:20]]
    return ", ".join([*listed, "…"] if len(names) > 20 else listed) or "none"


# Text: CSV, TSV, JSON, CoNLL-U, a sentence a line.


def _text_rows(lines: Iterator[str], name: str, suffix: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a text by its format; without a suffix, the first line that is not blank tells that."""
    start: list[str] = []
    while not (start and start[-1].strip()) and (line := next(lines, "")):
        start.append(line)
    first = start[-1] if start else ""
    if suffix == ".txt" and ("\t" in first.strip() or reading.header):
        suffix = ".tsv"
    suffix = suffix or _sniffed(first.lstrip())
    ahead = [*start, *(islice(lines, 8) if suffix == ".json" else ())]
    lines = chain(ahead, lines)
    match suffix:
        case ".csv":
            return _csv_rows(lines, name, first, reading, note)
        case ".tsv":
            return _table(_tsv_cells(lines, name, reading.quoting, note), name, reading, note)
        case ".txt":
            return _sentence_rows(lines, name, reading)
        case ".conllu":
            return _conllu_rows(lines, name)
        case ".json" if not _are_json_lines(ahead):
            return _document_rows(lines, name, reading)
        case _:
            return _rows_of_records(_json_lines(lines, name), name, reading)


def _sniffed(first: str) -> str:
    if is_conllu(first):
        return ".conllu"
    if first[:1] in ("{", "["):
        return ".json" if first[:1] == "[" or first.strip() == "{" else ".jsonl"
    return ".tsv" if "\t" in first else ".csv"


def _conllu_rows(lines: Iterator[str], name: str) -> Rows:
    for block in sentences_of(blocks_of(lines), name):
        if isinstance(block, PairsError):
            yield block
        else:
            number, line, sentence, sent_id = block
            yield Row(f"{name}:{line}", number, (sentence,), sent_id)


def _sentence_rows(lines: Iterator[str], name: str, reading: FileReading) -> Rows:
    try:
        columns = picked(reading, ["sentence"])  # so --columns that name others are refused
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield columns.row(f"{name}:{number}", number, _cut(line, "\n"))


Cells = Iterator[tuple[int, list[str]] | PairsError]
"""The line where each row of a table starts, and its cells; a PairsError in the place of a row that is none."""


def _csv_rows(lines: Iterator[str], name: str, first: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a CSV file, whose cells may be separated by semicolons or tabs as well."""
    if said := re.fullmatch('"?sep=(.)"?\r?\n?', first):  # Excel's own first line, which says what separates the cells
        between = said[1]
        lines = ("" if line == first else line for line in lines)
    elif (between := _separator(first, reading)) != ",":
        named = "tabs" if between == "\t" else "semicolons"
        note(f"{name}: its columns are read as separated by {named}")
    numbered = enumerate(lines, 1)
    cells = _plain_cells(numbered, between) if reading.quoting == "none" else _quoted_cells(numbered, name, between)
    return _table(cells, name, reading, note)


def _separator(first: str, reading: FileReading) -> str:
    """The separator of a CSV file: the one by which the first line has the columns, else several cells."""
    cells: dict[str, list[str]] = {}
    for mark in (",", ";", "\t"):
        try:
            cells[mark] = next(csv.reader([first], delimiter=mark), [])
            if len(cells[mark]) > 1:
                picked(reading, cells[mark])
                return mark
        except (PairsError, csv.Error):
            cells.setdefault(mark, [])
    return "," if len(cells[","]) > 1 else max(cells, key=lambda mark: len(cells[mark]))


def _table(table: Cells, name: str, reading: FileReading, note: OnNote) -> Rows:
    start = next(table, None)
    if start is None:
        raise PairsError(f"{name} is empty", "its first line must name the columns")
    if isinstance(start, PairsError):
        raise PairsError(start.what, "the first line must name the columns")
    header = start[1]
    if flaw := next((text for text in header if "\0" in text or re.search("[\ud800-\udfff]", text)), None):
        why = "has a NUL character" if "\0" in flaw else "is not of its encoding"
        raise PairsError(f"{name}: its first line {why}", "save it as UTF-8, or pass --encoding NAME")
    columns, names_columns = _begun(name, header, reading, note)
    needed = 1 + max(columns.indexes)
    for number, row in enumerate(table if names_columns else chain([start], table), 1):
        if isinstance(row, PairsError):
            yield row
            continue
        line, cells = row
        if names_columns and len(cells) != len(header):
            why = f"its number of fields is {len(cells)}, and in the first line {len(header)}"
            yield bad_record(f"{name}:{line}", why)
        elif len(cells) < needed:
            yield bad_record(f"{name}:{line}", f"its number of fields is {len(cells)}, and {needed} are needed")
        else:
            yield columns.row(f"{name}:{line}", number, cells)


def _plain_cells(lines: Iterator[tuple[int, str]], between: str) -> Cells:
    return ((number, _cut(line, between)) for number, line in lines if line.strip(" \r\n"))


def _quoted_cells(lines: Iterator[tuple[int, str]], name: str, between: str) -> Cells:
    """The rows of CSV. One that is not valid costs its first line alone: perhaps that only left a quote open."""
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_TEXT))  # an open quote must not take the whole file
    row: list[tuple[int, str]] = []  # the lines of the current one
    may_reread = _MAX_REREAD

    def texts(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
        for line in lines:
            row.append(line)
            yield line[1]

    reader = csv.reader(texts(lines), delimiter=between, strict=True)
    while True:
        row.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            why = str(error).partition(" - ")[0]  # without csv's advice, which is for programmers
            remedy = "correct it, pass --quoting none if its quotes are text, or --skip-bad to go on without it"
            yield PairsError(f"{name}:{row[0][0]}: is not valid CSV: {why}", remedy)
            again = row[1:]
            may_reread -= sum(len(line) for _, line in again)
            if may_reread >= 0:
                lines = chain(again, lines)
            reader = csv.reader(texts(lines), delimiter=between, strict=True)
            continue
        if cells is None:
            return
        if len(cells) > 1 or (cells and any(line.strip() for _, line in row)):
            yield row[0][0], cells


def _tsv_cells(lines: Iterator[str], name: str, quoting: Quoting, note: OnNote) -> Cells:
    """Rows whose quotes are text, as GLUE's files need, unless the lines from the first quoted cell on show quoting."""
    numbered: Iterator[tuple[int, str]] = enumerate(lines, 1)
    judged, width = quoting == "none", 0
    while quoting != "csv" and (line := next(numbered, None)):
        number, text = line
        cells = _cut(text, "\t")
        if not judged and (text.startswith('"') or '\t"' in text):
            judged = True
            sample = [line, *islice(numbered, _SAMPLE)]
            quoted = _is_quoted([text for _, text in sample], width)
            if quoted:
                note(f"{name}: its cells are quoted, and are read so (--quoting none if the quotes are text)")
                numbered = chain(sample, numbered)
                break
            numbered = chain(sample[1:], numbered)
            if quoted is None:
                note(f"{name}:{number}: quotes around cells are read as text (--quoting csv if they are not)")
        if text.strip(" \r\n"):
            width = width or len(cells)
            yield number, cells
    yield from _quoted_cells(numbered, name, "\t")  # of none, where all were read above


def _is_quoted(sample: Sequence[str], width: int) -> bool | None:
    """Whether lines of a TSV file of so many columns (0: unknown) were written with quotes as CSV has them.

    They are if only so every row has the right number of cells; or, where both ways give that, if quotes within quotes
    are doubled, or all is quoted from the first line on; else, where both ways give that, it is open: None. The
    sample's last row may be cut.
    """
    try:
        reader = csv.reader(sample, delimiter="\t", strict=True)
        widths = [len(row) for row in reader if row]
    except csv.Error:
        if reader.line_num < len(sample) or len(sample) <= _SAMPLE:
            return False
        widths = [width]
    plain = [_cut(line, "\t") for line in sample if line.strip(" \r\n")]
    expected = {width or widths[0]}
    if set(widths) != expected:
        return False
    doubled = any(re.fullmatch('"([^"]|"")*""([^"]|"")*"', cell) for cells in plain for cell in cells)
    all_quoted = not width and all(cell[:1] == '"' for cell in plain[0])
    return set(map(len, plain)) != expected or doubled or all_quoted or None


def _begun(name: str, cells: Sequence[str], reading: FileReading, note: OnNote) -> tuple[Picked, bool]:
    """Choose the columns to read by the cells of the first row; return also whether that row names the columns.

    Raises: PairsError if the columns are not there.
    """
    names_columns = reading.header
    if names_columns is None:
        doubtful = _doubtful(cells, reading)
        numbers = [_is_number(cell) for cell in cells]
        is_data = any(map(_is_sentence, doubtful)) or (any(numbers) and not all(numbers))
        names_columns = not (doubtful and is_data)
        if not names_columns:
            note(f"{name}: its first line looks like data, and is read as data (--header if it names the columns)")
        elif any(" " in cell.strip() for cell in doubtful):
            note(f"{name}: its first line looks like names of columns, and is read as such (--no-header if it is data)")
    names = cells if names_columns else [str(number) for number in range(1, len(cells) + 1)]
    try:
        if not names_columns and reading.columns is None:
            if len(cells) > 2:
                what = f"it has {len(cells)} columns without names"
                raise PairsError(what, "say with --columns which hold the sentences, counted from 1")
            reading = replace(reading, columns=tuple(names))
        return picked(reading, names), names_columns
    except PairsError as error:
        remedy = error.remedy
        if names_columns and reading.header is None and reading.columns is None:
            remedy = f"{remedy}; if its first line is data, pass --no-header"
        raise PairsError(f"{name}: {error.what}", remedy) from None


def _doubtful(cells: Sequence[str], reading: FileReading) -> Sequence[str]:
    """The cells of a first row that may be sentences or names of the columns that hold them; none if they are names."""
    if reading.columns is None:
        return [] if len(cells) > 2 or _known_among(cells) else cells
    numbers = [number for column in reading.columns if (number := _number(column)) is not None]
    if len(numbers) < len(reading.columns) or any(column in cells for column in reading.columns):
        return []
    return [cells[number - 1] for number in numbers if number <= len(cells)]


def _is_sentence(cell: str) -> bool:
    words, text = len(cell.split()), cell.rstrip("\"'”’ ")
    ends = text.endswith(("?", "!", "。", "？", "！")) or (words > 1 and text.endswith("."))
    return words >= _WORDS or ends or len(cell) > _LONGEST_NAME


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# JSON.


def _are_json_lines(start: Sequence[str]) -> bool:
    """Whether a .json file holds JSON lines: its first line is an object, and another line follows."""
    full = [line for line in start if line.strip()]
    with suppress(ValueError, RecursionError):
        return len(full) > 1 and isinstance(json.loads(full[0]), dict)
    return False


def _loaded(text: str, where: str) -> Any:
    """What a JSON text says. Raises: PairsError."""
    try:
        return json.loads(text)
    except RecursionError:
        why = "is nested too deeply"
    except json.JSONDecodeError as error:
        why = f"is not valid JSON at character {error.pos + 1}: {error.msg}"
    except ValueError:  # Python reads integers of 4,300 digits at most, since its time grows with their square
        why = f"has a number of more than {sys.get_int_max_str_digits():,} digits"
    raise bad_record(where, why)


def _json_lines(lines: Iterator[str], name: str) -> Iterator[tuple[str, object]]:
    """The place and record of each line; a PairsError in the place of a bad one."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{name}:{number}"
            try:
                yield where, _loaded(line, where)
            except PairsError as error:
                yield where, error


def _document_rows(lines: Iterator[str], name: str, reading: FileReading) -> Rows:
    """The rows of a JSON document, which is held in memory as a whole. Raises: PairsError."""
    text = "".join(lines)
    if not text.strip():
        raise PairsError(f"{name} is empty", "it must hold a list of records")
    try:
        document = _loaded(text, name)
    except PairsError as error:
        raise PairsError(error.what.replace(": ", " ", 1), "write it again") from None
    records = ((f"{name}: record {number}", record) for number, record in enumerate(_records_in(document), 1))
    return _rows_of_records(records, name, reading)


def _records_in(document: Any) -> Iterable[object]:
    """The records of a document: a list's items, an object's columns or only list row by row, else the document.

    Columns that are objects are joined by their keys, as pandas reads them; a cell without a partner is null.
    """
    columns = list(document.values()) if isinstance(document, dict) else []
    lists = [column for column in columns if isinstance(column, list)]
    if len(columns) > 1 and all(isinstance(column, dict) for column in columns):
        keys = dict.fromkeys(key for column in columns for key in column)
        return ({name: column.get(key) for name, column in document.items()} for key in keys)
    if len(lists) == 1 and lists[0] and all(isinstance(row, dict) for row in lists[0]):
        return lists[0]
    if lists and len(lists) == len(columns) and len(set(map(len, lists))) == 1:
        return (dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True))
    return document if isinstance(document, list) else [document]


def _rows_of_records(records: Iterator[tuple[str, object]], name: str, reading: FileReading) -> Rows:
    """The rows of JSON objects, lists or texts; the first that has the columns decides their names for all.

    Raises: PairsError if no record has the columns.
    """
    columns: Picked | None = None
    names: dict[int, str] = {}
    kind: type | None = None
    unfit: PairsError | None = None
    for number, (where, record) in enumerate(records, 1):
        if isinstance(record, PairsError):
            yield record
            continue
        kind = kind or type(record)
        if not isinstance(record, kind) or not isinstance(record, dict | list | str):
            expected = "list" if kind is list else "text" if kind is str else "object"
            yield bad_record(where, f"is not a JSON {expected}")
            continue
        if not isinstance(record, dict):
            record = {str(at): cell for at, cell in enumerate([record] if isinstance(record, str) else record, 1)}
        if columns is None:
            there, own = list(record), reading
            if own.columns is None and kind is not dict and len(there) < 3:
                own = replace(own, columns=tuple(there))
            try:
                columns = picked(own, there, fixed=False)
            except PairsError as error:
                unfit = unfit or error
                yield PairsError(f"{where}: {error.what}", error.remedy)
                continue
            names = {at: there[at] for at in columns.indexes}
        if missing := [field for field in names.values() if field not in record]:
            yield bad_record(where, f"has no field {missing[0]!r}")
        else:
            yield columns.row(where, number, {at: record[field] for at, field in names.items()})
    if unfit and columns is None:
        raise PairsError(f"{name}: {unfit.what}", unfit.remedy)


# Parquet, Arrow, Excel.


@contextmanager
def _sound(name: str, kind: str, remedy: str = "write it again") -> Iterator[None]:
    """Make one line of what is not sound: Arrow and calamine raise a dozen kinds, in their own words."""
    try:
        yield
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None
    except Exception as error:
        if kind == ".xlsx" and out_of_memory(error):  # of Arrow, damage asks for much memory, too
            raise
        what = f"{name} is not a valid {kind} file: it is damaged, or in another format"
        raise PairsError(what, remedy) from None


def _columnar_rows(file: IO[bytes], name: str, suffix: str, reading: FileReading) -> Rows:
    """The rows of a Parquet file, an Arrow file, or an Arrow stream, as `datasets` keeps them. Raises: PairsError."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
        import pyarrow.parquet
    kind = "Arrow" if suffix in (".arrow", ".feather") else "Parquet"
    number, batches = 0, iter(())
    with _sound(name, kind):
        if kind == "Parquet":  # a checksum is seldom there, but where one is, a changed letter is found
            table = pa.parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        else:
            start = file.read(6)
            file.seek(0)
            table = pa.ipc.open_file(file) if start == b"ARROW1" else pa.ipc.open_stream(file)
        schema = table.schema_arrow if kind == "Parquet" else table.schema
        columns = picked(reading, schema.names)
        names = [schema.names[index] for index in columns.indexes]
        if twice := [column for column in names if schema.names.count(column) > 1]:
            raise PairsError(f"two columns are called {twice[0]!r}", "rename one of them")
        if kind == "Parquet":
            batches = table.iter_batches(_ROWS, columns=names, use_threads=False)
        else:
            count = getattr(table, "num_record_batches", None)
            batches = iter(table) if count is None else map(table.get_batch, range(count))
    while True:
        with _sound(name, kind):
            if (batch := next(batches, None)) is None:
                break
            if kind == "Arrow":
                batch.validate(full=True)  # what is read of a file that lies about itself would be other memory
        arrays = [batch.column(column) for column in names]
        for at in range(batch.num_rows):
            number += 1
            where = f"{name}: row {number}"
            try:
                cells = {i: array[at].as_py() for i, array in zip(columns.indexes, arrays, strict=True)}
                yield columns.row(where, number, cells)
            except UnicodeDecodeError as error:
                yield bad_record(where, f"is not valid UTF-8 at byte {error.start + 1}")
    if kind == "Parquet" and number != table.metadata.num_rows:
        raise PairsError(f"{name} has {table.metadata.num_rows} rows, of which {number} can be read", "write it again")


def _xlsx_rows(file: IO[bytes], name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a workbook's first visible sheet, without blank ones; `note` is told which, if there are several.

    Raises: PairsError.
    """
    with needs(f"reading {name} needs python-calamine", "excel", PairsError):
        from python_calamine import SheetTypeEnum, SheetVisibleEnum
    import pandas as pd

    with _sound(name, ".xlsx", "save it again, as .xlsx and without a password"):
        book = pd.ExcelFile(file, engine="calamine")
        sheets = book.book.sheets_metadata
        visible = [s for s in sheets if s.typ == SheetTypeEnum.WorkSheet and s.visible == SheetVisibleEnum.Visible]
        sheet = pd.read_excel(book, visible[0].name if visible else 0, header=None, dtype=object, keep_default_na=False)
    if not visible:
        raise PairsError(f"{name} has no sheet of cells that is visible", "unhide the one with the table")
    if len(sheets) > 1:
        which = "first sheet" if visible[0] is sheets[0] else "first visible sheet of cells"
        note(f"{name}: its {which} is read, {visible[0].name!r}")
    table = ([None if cell == "" else cell for cell in row] for row in sheet.itertuples(index=False))
    rows = ((number, cells) for number, cells in enumerate(table, 1) if any(cell is not None for cell in cells))
    first, header = next(rows, (0, []))
    if not header:
        raise PairsError(f"{name} is empty", "its first row must name the columns")
    columns, names_columns = _begun(name, ["" if cell is None else str(cell) for cell in header], reading, note)
    for number, cells in rows if names_columns else chain([(first, header)], rows):
        yield columns.row(f"{name}: row {number}", number - first + (not names_columns), cells)
