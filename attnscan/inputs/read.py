"""Files of pairs -> records: lines or cells -> rows -> the pairs of their columns, with file and line.

What is guessed, such as encodings, separators, quotes, or whether a first line names the columns, is noted where the
guess could be wrong, with the option that overrides it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

from attnscan.errors import InputError, OptionError, PairsError, needs
from attnscan.inputs.conllu import is_conllu, trees_of
from attnscan.inputs.files import STDIN, TABLES, files_named, format_of, local_files, opened, packing_of, shown
from attnscan.inputs.option import Option, check_declared
from attnscan.inputs.sentence import Pair, Place, Record, Text, bad_record

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
_HALVES = {name for columns in COLUMNS if len(columns) == 2 for name in columns}

Quoting = Literal["auto", "csv", "none"]
OnBad = Callable[[PairsError], None]
"""Is handed each bad record in place of an error; reading goes on after it."""
OnNote = Callable[[str], None]
"""Is told how a file is read where its looks decided."""

_ROWS = 16  # of Parquet at a time: a file of a kilobyte can repeat a long cell a million times
_LONGEST_CELL = 16 << 20  # characters that an open quote swallows
_MOST_LINES_AGAIN = 1_000_000  # of a file: one of open quotes alone would take quadratic time
_SAMPLE = 1000  # lines behind the first quoted cell that show whether quotes are the writer's
_WORDS, _LONGEST_NAME = 5, 60  # words that make a cell a sentence, and characters of a column's name
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_NO_TEXT = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\xfd7zXZ": ".xz",
    b"PK\3\4": ".xlsx",
    b"PAR1\x15": ".parquet",
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
        Option("Copy this column to --per-pair, to join rows by it.", metavar="COLUMN"),
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
    return _read_files(files_named(names), reading, on_bad, on_note)


def _read_files(files: Sequence[str], reading: FileReading, on_bad: OnBad | None, note: OnNote) -> Iterator[Record]:
    for file in files:
        with opened(file) as stream:
            name, suffix = shown(file), format_of(file)
            if suffix == ".xlsx":
                rows = _sheet_rows(stream, name, reading, note)
            elif suffix in TABLES:
                rows = _arrow_rows(stream, name, suffix, reading)
            else:
                rows = _text_rows(_lines(stream, name, reading.encoding, note), name, suffix, reading, note)
            yield from good_records(rows, on_bad)


def lines_of_stdin(on_bad: OnBad | None = None, on_note: OnNote = lambda _: None) -> Iterator[Record]:
    """Read standard input, an input a line: a sentence, or A and B with a tab between. Blank lines are skipped.

    `on_note` is told if it is not UTF-8.

    Raises: PairsError if it is closed; or for a line that is no input, unless that is handed to `on_bad`.
    """
    name = shown(STDIN)
    with opened(STDIN) as stream:
        lines = enumerate(_lines(stream, name, None, on_note), 1)
        full = ((number, _cut(line, "\t")) for number, line in lines if line.strip())
        rows = (record_of(f"{name}:{number}", Place(name, number), cells) for number, cells in full)
        yield from good_records(rows, on_bad)


def shipped_pairs() -> Iterator[Record]:
    """The 102 pairs that attnscan ships."""
    name = "attnscan/inputs/data/pairs.csv"
    with resources.as_file(resources.files("attnscan.inputs").joinpath("data", "pairs.csv")) as path:
        for record in read_pairs([str(path)]):
            where = record.where.replace(str(path), name)
            yield replace(record, where=where, place=replace(record.place, file=name))


def about_how_many(names: Sequence[str], reading: FileReading = FileReading()) -> int | None:
    """About how many pairs the files hold, for the time left: their lines. None where that needs reading the files.

    Without names, the pairs that attnscan ships.
    """
    files = local_files(names)
    if not names or files is None:
        return None if names else sum(1 for _ in shipped_pairs())
    if any(format_of(file) not in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson") or packing_of(file) for file in files):
        return None
    total, last = 0, b""
    for file in files:
        with Path(file).open("rb") as stream:
            for chunk in iter(partial(stream.read, 1 << 20), b""):
                total, last = total + chunk.count(b"\n"), chunk[-1:]
        total += (last != b"\n") - (format_of(file) in (".csv", ".tsv") and reading.header is not False)
    return max(total, 0)


Rows = Iterator[Record | PairsError]
"""The records of a file, and a PairsError in the place of each bad one."""


def good_records(rows: Iterable[Record | PairsError], on_bad: OnBad | None) -> Iterator[Record]:
    """The records without the bad ones. Raises: PairsError for a bad one, unless that is handed to `on_bad`."""
    for row in rows:
        if isinstance(row, Record):
            yield row
        elif on_bad is None:
            raise row
        else:
            on_bad(row)


def record_of(where: str, place: Place, sentences: Sequence[Any], label: Any = None) -> Record | PairsError:
    """The record of one or two cells, or what is wrong with them."""
    for name, cell in zip("AB", sentences, strict=False):
        if isinstance(cell, Text):
            continue
        if isinstance(cell, Mapping) and cell:
            what = f"{where}: sentence {name} is an object with the fields {', '.join(map(str, list(cell)[:5]))}"
            return PairsError(what, "name one or two with --columns, such as translation.en, or pass --skip-bad")
        is_what = "missing" if _is_missing(cell) else f"of the class {type(cell).__name__}, and not text"
        return bad_record(where, f"sentence {name} is {is_what}")
    if len(sentences) not in (1, 2):
        return bad_record(where, f"it has {len(sentences)} cells, where one or two sentences are expected")
    try:
        return Record(Pair(*sentences), where, _as_text(label), place)
    except InputError as error:
        return bad_record(where, error.what)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is empty: None, NaN, or NA of pandas."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _as_text(cell: Any) -> str | None:
    """An id or a label; what is no Unicode in it is replaced."""
    return None if _is_missing(cell) else str(cell).encode(errors="replace").decode()


# Columns.

Column = tuple[Any, ...]
"""A column: its place from 0 and, where its cells are nested, the keys of the value inside."""


class Columns(NamedTuple):
    """The columns to read of each row."""

    sentences: tuple[Column, ...]
    id: Column | None = None
    label: Column | None = None

    @property
    def places(self) -> list[int]:
        """The places of the columns, without repeats."""
        return list(dict.fromkeys(column[0] for column in (*self.sentences, self.id, self.label) if column))

    def record(
        self, where: str, file: str, number: int, cells: Sequence[Any] | Mapping[int, Any]
    ) -> Record | PairsError:
        """The record of a row's cells, by their places, or what is wrong with it."""
        id_, label = (None if column is None else _value(cells, column) for column in (self.id, self.label))
        sentences = [_value(cells, column) for column in self.sentences]
        return record_of(where, Place(file, number, _as_text(id_)), sentences, label)


def _value(cells: Sequence[Any] | Mapping[int, Any], column: Column) -> Any:
    """The value in a row's cells; None if a key is not there. Items of lists are counted from 1."""
    value = cells[column[0]]
    for key in column[1:]:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list | tuple) and 0 < _number(key) <= len(value):
            value = value[_number(key) - 1]
        else:
            return None
    return value


def pick_columns(reading: FileReading, names: Sequence[str]) -> Columns:
    """Choose the columns to read by their names. Raises: PairsError that lists the columns if there are none."""
    wanted = reading.columns or known_among(names) or (names if len(names) == 1 else ())
    if not wanted:
        what = f"the columns are {_listed(names)}, and none is known to hold sentences"
        raise PairsError(what, "name one or two of them with --columns, or say which, counted from 1")
    if not reading.columns and len(names) == 1 and re.search("[,;\t|]", names[0]):
        what = f"the only column is {_listed(names)}, as if another separator were used"
        raise PairsError(what, "save it as CSV or TSV, or pass --columns 1")
    sentences = tuple(_column(names, name, "--columns") for name in wanted)
    taken = [column[0] for column in sentences]
    labels = [(place,) for place, name in enumerate(names) if _folded(name) == "label" and place not in taken]
    id_column = None if reading.id is None else _column(names, reading.id, "--id")
    return Columns(sentences, id_column, labels[0] if labels and reading.labelled else None)


def known_among(names: Sequence[str]) -> tuple[str, ...] | None:
    """The first of `COLUMNS` that are all among these names, in any case."""
    known = {_folded(name) for name in names}
    return next((columns for columns in COLUMNS if known.issuperset(columns)), None)


def _column(names: Sequence[str], column: str, option: str) -> Column:
    """The column of exactly this name, else up to case and spaces, else of this number, else a path into a column."""
    exact = [place for place, name in enumerate(names) if name == column]
    close = exact or [place for place, name in enumerate(names) if _folded(name) == _folded(column)]
    if len(close) > 1:
        raise PairsError(f"{len(close)} columns are called {column!r}", f"say which with {option}, counted from 1")
    if close:
        return (close[0],)
    if 0 < _number(column) <= len(names):
        return (_number(column) - 1,)
    keys = column.split(".")
    for length in range(len(keys) - 1, 0, -1):
        if (outer := ".".join(keys[:length])) in names:
            return (names.index(outer), *keys[length:])
    what = f"there is no column {column!r:.60}; the columns are {_listed(names)}"
    raise PairsError(what, f"name those to read with {option}, or say which, counted from 1")


def _number(text: str) -> int:
    """A column's name as a number from 1; 0 if it is no number."""
    return int(text) if re.fullmatch("[0-9]{1,5}", text) else 0


def _folded(name: str) -> str:
    return name.strip("\ufeff \t").casefold()


def _listed(names: Sequence[str]) -> str:
    """The names as an error lists them: 20 at most, long ones cut."""
    return ", ".join([f"{name!r:.40}" for name in names[:20]] + ["…"] * (len(names) > 20)) or "none"


# Text: CSV, TSV, a sentence a line, CoNLL-U.


def _lines(stream: IO[bytes], name: str, encoding: str | None, note: OnNote) -> Iterator[str]:
    """The lines of a stream, decoded, with their ends.

    They are UTF-8, or UTF-16 or UTF-32 by their mark, or of the encoding that was asked for. A line that is not UTF-8
    is Windows-1252, of which `note` is told, unless it or a line before has UTF-8 beyond ASCII: then it is damaged.
    Bytes that cannot be decoded are kept as U+DC80 to U+DCFF, which no sentence may have.

    Raises: PairsError for a file of another kind.
    """
    first = stream.readline()
    if suffix := next((suffix for start, suffix in _NO_TEXT.items() if first.startswith(start)), ""):
        raise PairsError(f"{name} is no text, and begins as {suffix} files do", f"unpack it, or call it {suffix}")
    codec = next((wide for mark, wide in _MARKS.items() if first.startswith(mark)), encoding or "utf-8")
    if codecs.lookup(codec).name.startswith(("utf-16", "utf-32")):
        try:  # its line ends are no bytes, so it is read whole
            text = (first + stream.read()).decode(codec, "surrogatepass")
        except UnicodeDecodeError as error:
            what = f"{name} is not valid {codec.upper()} at byte {error.start + 1}"
            raise PairsError(what, "save it again, or pass --encoding NAME") from None
        yield from io.StringIO(text.lstrip("\ufeff"), newline="\n")
        return
    may_be_windows, is_told = encoding is None, False
    for line in chain([first.removeprefix(codecs.BOM_UTF8)], stream):
        try:
            text = line.decode(codec)
            may_be_windows = may_be_windows and text.isascii()
        except UnicodeDecodeError:
            text = line.decode("ascii" if encoding else "utf-8", "surrogateescape")
            as_windows = line.decode("cp1252", "replace")
            if may_be_windows and line.decode(errors="ignore").isascii() and "\ufffd" not in as_windows:
                text = as_windows
                if not is_told:
                    note(f"{name}: it is not UTF-8, and is read as Windows-1252 (--encoding NAME if it is not)")
                is_told = True
        yield text


def _cut(line: str, separator: str) -> list[str]:
    return line.removesuffix("\n").removesuffix("\r").split(separator)


def _text_rows(lines: Iterator[str], name: str, suffix: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a text by its format; without a suffix, the first line that is not blank tells that."""
    start: list[str] = []
    while not (start and start[-1].strip()) and (line := next(lines, "")):
        start.append(line)
    first = start[-1] if start else ""
    if not suffix:
        looks = {"[": ".json", "{": ".json" if first.strip() == "{" else ".jsonl"}
        by_tabs = ".conllu" if is_conllu(first) else ".tsv" if "\t" in first else ".csv"
        suffix = looks.get(first.lstrip()[:1], by_tabs)
    elif suffix == ".txt" and ("\t" in first.strip() or reading.header):
        suffix = ".tsv"
    elif suffix == ".json":  # it holds JSON lines if its first line is an object, and another line follows
        start += islice(lines, 8)
        if sum(line.strip() != "" for line in start) > 1 and isinstance(_parse_json(first, name), dict):
            suffix = ".jsonl"
    lines = chain(start, lines)
    if suffix == ".txt":
        columns = pick_columns(reading, ["sentence"])  # so --columns that name others are refused
        full = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        return (columns.record(f"{name}:{number}", name, number, _cut(line, "\n")) for number, line in full)
    if suffix == ".conllu":
        return trees_of(lines, name)
    if suffix == ".json":
        return _json_rows(_document_records("".join(lines), name), name, reading)
    if suffix in (".csv", ".tsv"):
        return _table_rows(lines, name, suffix, first, reading, note)
    numbered = ((f"{name}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())
    return _json_rows(((where, _parse_json(line, where)) for where, line in numbered), name, reading)


Cells = Iterator[tuple[int, list[str]] | PairsError]
"""The line where each row of a table starts, and its cells; a PairsError in the place of a row that is none."""


def _table_rows(lines: Iterator[str], name: str, suffix: str, first: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of CSV, whose cells may be separated by semicolons or tabs as well, or of TSV."""
    separator = "\t" if suffix == ".tsv" else _separator(first, reading)
    if suffix == ".csv" and (said := re.fullmatch('"?sep=(.)"?\r?\n?', first)):  # Excel's own first line
        separator = said[1]
        lines = ("" if line == first else line for line in lines)
    elif separator != "," and suffix == ".csv":
        note(f"{name}: its columns are read as separated by {'tabs' if separator == chr(9) else 'semicolons'}")
    numbered = enumerate(lines, 1)
    if reading.quoting == "csv" or (reading.quoting == "auto" and suffix == ".csv"):
        table = _quoted_cells(numbered, name, separator)
    else:
        table = _plain_cells(numbered, name, separator, note if reading.quoting == "auto" else None)
    start = next(table, None)
    if start is None or isinstance(start, PairsError):
        raise PairsError(start.what if start else f"{name} is empty", "its first line must name the columns")
    columns, has_names = _begin_table(name, start[1], reading, note)
    least, most = (len(start[1]),) * 2 if has_names else (1 + max(columns.places), sys.maxsize)
    for number, row in enumerate(table if has_names else chain([start], table), 1):
        if isinstance(row, PairsError):
            yield row
        elif least <= len(row[1]) <= most:
            yield columns.record(f"{name}:{row[0]}", name, number, row[1])
        else:
            expected = f"in the first line {least}" if has_names else f"{least} are needed"
            yield bad_record(f"{name}:{row[0]}", f"its number of fields is {len(row[1])}, and {expected}")


def _separator(first: str, reading: FileReading) -> str:
    """The separator of a CSV file: the one by which the first line has the columns, else several cells."""
    cells: dict[str, list[str]] = {mark: [] for mark in ",;\t"}
    for separator in cells:
        with suppress(PairsError, csv.Error):
            cells[separator] = next(csv.reader([first], delimiter=separator), [])
            if len(cells[separator]) > 1 and pick_columns(reading, cells[separator]):
                return separator
    return "," if len(cells[","]) > 1 else max(cells, key=lambda separator: len(cells[separator]))


def _begin_table(name: str, cells: Sequence[str], reading: FileReading, note: OnNote) -> tuple[Columns, bool]:
    """Choose the columns to read by the cells of the first row; return also whether that row names the columns.

    Raises: PairsError if the columns are not there.
    """
    has_names, columns = reading.header, reading.columns or ()
    if has_names is None:
        doubtful = []  # cells that may be sentences, or names of the columns that hold them
        if not columns and len(cells) < 3 and not known_among(cells):
            doubtful = list(cells)
        elif columns and all(map(_number, columns)) and not set(cells) & set(columns):
            doubtful = [cells[_number(column) - 1] for column in columns if _number(column) <= len(cells)]
        are_numbers = [re.fullmatch(r"\s*[-+]?[0-9]+(\.[0-9]+)?\s*", cell) is not None for cell in cells]
        is_data = any(map(_is_sentence, doubtful)) or (any(are_numbers) and not all(are_numbers))
        has_names = not (doubtful and is_data)
        if not has_names:
            note(f"{name}: its first line looks like data, and is read as data (--header if it names the columns)")
        elif any(" " in cell.strip() for cell in doubtful):
            note(f"{name}: its first line looks like names of columns, and is read as such (--no-header if it is data)")
    if has_names:
        try:
            return pick_columns(reading, cells), True
        except PairsError as error:
            if reading.header or columns:
                raise
            raise PairsError(error.what, f"{error.remedy}; if its first line is data, pass --no-header") from None
    places = tuple(str(number) for number in range(1, len(cells) + 1))
    if not columns and len(cells) > 2:
        what = f"it has {len(cells)} columns without names"
        raise PairsError(what, "say with --columns which hold the sentences, counted from 1")
    return pick_columns(replace(reading, columns=columns or places), places), False


def _is_sentence(cell: str) -> bool:
    words, text = len(cell.split()), cell.rstrip("\"'”’ ")
    ends = text.endswith(("?", "!", "。", "？", "！")) or (words > 1 and text.endswith("."))
    return words >= _WORDS or ends or len(cell) > _LONGEST_NAME


def _quoted_cells(numbered: Iterator[tuple[int, str]], name: str, separator: str) -> Cells:
    """The rows of CSV. One that is not valid costs its first line alone: perhaps that only left a quote open."""
    csv.field_size_limit(_LONGEST_CELL)  # an open quote must not take the whole file
    taken: list[tuple[int, str]] = []  # the lines of the current row
    ahead: list[tuple[int, str]] = []  # lines to read again, the last one first
    may_reread = _MOST_LINES_AGAIN

    def next_lines() -> Iterator[str]:
        while line := ahead.pop() if ahead else next(numbered, None):
            taken.append(line)
            yield line[1]

    while True:
        try:
            for cells in csv.reader(next_lines(), delimiter=separator, strict=True):
                if len(cells) > 1 or any(line.strip() for _, line in taken):
                    yield taken[0][0], cells
                taken.clear()
            return
        except csv.Error as error:
            why = str(error).partition(" - ")[0]  # without csv's advice, which is for programmers
            remedy = "correct it, pass --quoting none if its quotes are text, or --skip-bad to go on without it"
            yield PairsError(f"{name}:{taken[0][0]}: is not valid CSV: {why}", remedy)
            may_reread -= len(taken)
            ahead += reversed(taken[1:] if may_reread > 0 else ())
            taken.clear()


def _plain_cells(numbered: Iterator[tuple[int, str]], name: str, separator: str, note: OnNote | None) -> Cells:
    """Rows whose quotes are text, as GLUE's files need. Where the lines from the first quoted cell on show otherwise,
    `note` is told, and they are read as CSV; without a `note`, quotes are text whatever they look like.
    """
    width = 0
    for number, line in numbered:
        cells = _cut(line, separator)
        if note and (line.startswith('"') or f'{separator}"' in line):
            ahead = list(islice(numbered, _SAMPLE))
            numbered_again = chain([(number, line)], ahead, numbered)
            if is_quoted := _is_quoted([line, *(text for _, text in ahead)], separator, width):
                note(f"{name}: its cells are quoted, and are read so (--quoting none if the quotes are text)")
                yield from _quoted_cells(numbered_again, name, separator)
                return
            if is_quoted is None:
                note(f"{name}:{number}: quotes around cells are read as text (--quoting csv if they are not)")
            yield from _plain_cells(numbered_again, name, separator, None)
            return
        if line.strip(" \r\n"):
            width = width or len(cells)
            yield number, cells


def _is_quoted(sample: Sequence[str], separator: str, width: int) -> bool | None:
    """Whether lines of a table of so many columns (0: unknown) were written with quotes as CSV has them.

    They are if only so every row has the right number of cells; or, where both ways give that, if quotes within quotes
    are doubled, or all is quoted from the first line on; else it is open: None. The sample's last row may be cut.
    """
    reader = csv.reader(sample, delimiter=separator, strict=True)
    widths = {width} - {0}
    try:
        widths.update(len(row) for row in reader if row)
    except csv.Error:
        if reader.line_num < len(sample) or len(sample) <= _SAMPLE:
            return False
    if len(widths) > 1:
        return False
    plain = [_cut(line, separator) for line in sample if line.strip(" \r\n")]
    doubled = any(re.fullmatch('"([^"]|"")*""([^"]|"")*"', cell) for cells in plain for cell in cells)
    all_quoted = not width and all(cell[:1] == '"' for cell in plain[0])
    return set(map(len, plain)) != widths or doubled or all_quoted or None


# JSON.


def _parse_json(text: str, where: str) -> Any:
    """What a JSON text says, or a PairsError for what is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        why = f"{error.msg} at character {error.pos + 1}"
    except (ValueError, RecursionError) as error:  # a number of more than 4,300 digits, or lists within lists
        why = str(error).partition(";")[0]
    return bad_record(where, f"is not valid JSON: {why}")


def _document_records(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """The records of a document: a list's items, an object's columns or only list row by row, else the document.

    Columns that are objects are joined by their keys, as pandas reads them; a cell without a partner is null.
    """
    document = _parse_json(text, name)
    if isinstance(document, PairsError):
        raise PairsError(document.what if text.strip() else f"{name} is empty", "it must hold a list of records")
    records: Iterable[Any] = document if isinstance(document, list) else [document]
    if isinstance(document, dict):
        columns = list(document.values())
        lists = [column for column in columns if isinstance(column, list)]
        if len(columns) > 1 and all(isinstance(column, dict) for column in columns):
            keys = dict.fromkeys(chain.from_iterable(columns))
            records = ({name: column.get(key) for name, column in document.items()} for key in keys)
        elif len(lists) == 1 and lists[0] and all(isinstance(row, dict) for row in lists[0]):
            records = lists[0]
        elif lists and len(lists) == len(columns) and len(set(map(len, lists))) == 1:
            records = (dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True))
    return ((f"{name}: record {number}", record) for number, record in enumerate(records, 1))


def _json_rows(records: Iterator[tuple[str, Any]], name: str, reading: FileReading) -> Rows:
    """The rows of JSON objects, lists or texts; the first that has the columns decides their names for all."""
    columns: Columns | None = None
    names: list[str] = []
    kind: type | None = None
    for number, (where, record) in enumerate(records, 1):
        if isinstance(record, PairsError):
            yield record
            continue
        kind = kind or type(record)
        if not isinstance(record, kind) or not isinstance(record, dict | list | str):
            yield bad_record(where, "is not a JSON object" if kind is dict else "is not like the first record")
            continue
        if not isinstance(record, dict):
            record = {str(at): cell for at, cell in enumerate([record] if isinstance(record, str) else record, 1)}
        if columns is None:
            names = list(record)
            if kind is dict and reading.columns is None and len(names) == 1 and _folded(names[0]) in _HALVES:
                yield bad_record(where, f"the only column is {names[0]!r}, which is half of a pair")
                continue
            is_pair = reading.columns is None and kind is not dict and len(names) < 3
            try:
                columns = pick_columns(replace(reading, columns=tuple(names)) if is_pair else reading, names)
            except PairsError as error:
                yield PairsError(f"{where}: {error.what}", error.remedy)
                continue
        if missing := [names[place] for place in columns.places if names[place] not in record]:
            yield bad_record(where, f"has no field {missing[0]!r}")
        else:
            yield columns.record(where, name, number, {place: record[names[place]] for place in columns.places})


# Parquet, Arrow, Excel.


def _arrow_rows(file: IO[bytes], name: str, suffix: str, reading: FileReading) -> Rows:
    """The rows of a Parquet file, an Arrow file, or an Arrow stream, as `datasets` keeps them."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
        import pyarrow.parquet
    if suffix in (".parquet", ".pq"):  # a checksum is seldom there, but where one is, a changed letter is found
        table = pa.parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        columns = pick_columns(reading, table.schema_arrow.names)
        names = [table.schema_arrow.names[place] for place in columns.places]
        batches = table.iter_batches(_ROWS, columns=names, use_threads=False)
    else:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        table = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        columns = pick_columns(reading, table.schema.names)
        names = [table.schema.names[place] for place in columns.places]
        batches = map(table.get_batch, range(table.num_record_batches)) if is_file else iter(table)
    number = 0
    for batch in batches:
        batch.validate(full=suffix not in (".parquet", ".pq"))  # a file that lies about itself would show other memory
        for at in range(batch.num_rows):
            number += 1
            where = f"{name}: row {number}"
            try:
                cells = {place: batch[column][at].as_py() for place, column in zip(columns.places, names, strict=True)}
                yield columns.record(where, name, number, cells)
            except UnicodeDecodeError as error:
                yield bad_record(where, f"is not valid UTF-8 at byte {error.start + 1}")


def _sheet_rows(file: IO[bytes], name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a workbook's first visible sheet, without blank ones; `note` is told which, if there are several."""
    with needs(f"reading {name} needs python-calamine", "excel", PairsError):
        from python_calamine import SheetTypeEnum, SheetVisibleEnum
    import pandas as pd

    book = pd.ExcelFile(file, engine="calamine")
    sheets = [sheet for sheet in book.book.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet]
    visible = [sheet.name for sheet in sheets if sheet.visible == SheetVisibleEnum.Visible]
    if not visible:
        raise PairsError(f"{name} has no sheet of cells that is visible", "unhide the one with the table")
    if len(book.sheet_names) > 1:
        note(f"{name}: its first visible sheet is read, {visible[0]!r}")
    sheet = pd.read_excel(book, visible[0], header=None, dtype=object, keep_default_na=False)
    table = ([None if cell == "" else cell for cell in row] for row in sheet.itertuples(index=False))
    rows = ((number, cells) for number, cells in enumerate(table, 1) if any(cell is not None for cell in cells))
    first, header = next(rows, (0, []))
    if not header:
        raise PairsError(f"{name} is empty", "its first row must name the columns")
    columns, has_names = _begin_table(name, ["" if cell is None else str(cell) for cell in header], reading, note)
    for number, cells in rows if has_names else chain([(first, header)], rows):
        yield columns.record(f"{name}: row {number}", name, number - first + (not has_names), cells)
