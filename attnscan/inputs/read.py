"""Files of pairs -> records with file and line. A guess that could be wrong is noted, with the option that decides."""

from __future__ import annotations

import codecs
import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, dropwhile, islice
from pathlib import Path
from typing import IO, Any, Literal

from attnscan.errors import PairsError, needs
from attnscan.inputs.annotations import trees_of
from attnscan.inputs.files import TABLES, files_named, format_of, local_files, opened, shown
from attnscan.inputs.records import (
    Columns,
    FileReading,
    OnBad,
    Rows,
    good_records,
    known_among,
    pick_columns,
    records_of,
)
from attnscan.inputs.sentence import Pair, Place, Record, bad_record

OnNote = Callable[[str], None]  # is told how a file is read where its looks decided
Cells = Iterator[
    tuple[str, Sequence[Any]] | PairsError | None
]  # where a row starts, its cells; None of a blank one
RANDOM, RANDOM_SEQUENCES = (
    "random",
    64,
)  # what stands for `random_pairs` in place of a file, and how many there are
_ROWS = 16  # of Parquet at a time: a file of a kilobyte can repeat a long cell a million times
_SAMPLE = 10_000  # lines that show whether quotes are the writer's
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_NO_TEXT = (
    b"\x1f\x8b",
    b"BZh",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ",
    b"PK\3\4",
    b"PAR1",
)  # packed files and tables
_SENTENCE = re.compile(r"(\S+\s+){4}\S|[?!。？！]\W*$|\s\S+\.\W*$")  # five words, or a final stop
csv.field_size_limit(16 << 20)  # an open quote must not take the whole file


def read_pairs(
    names: Sequence[str],
    reading: FileReading = FileReading(),
    on_bad: OnBad | None = None,
    on_note: OnNote = lambda _: None,
) -> Iterator[Record]:
    """Read the pairs of files as a stream. Raises: PairsError, at once if a file is not there, or later."""
    return _read_files(files_named(names), reading, on_bad, on_note)


def _read_files(
    files: Sequence[str], reading: FileReading, on_bad: OnBad | None, note: OnNote
) -> Iterator[Record]:
    for file in files:
        name, suffix = shown(file), format_of(file)
        with opened(file) as stream:
            if suffix == ".xlsx":
                rows = _sheet_rows(stream, name, reading, note)
            elif suffix in TABLES:
                rows = _arrow_rows(stream, name, suffix, reading)
            else:
                rows = _text_rows(
                    _lines(stream, name, reading.encoding, note), name, suffix, reading, note
                )
            yield from good_records(rows, on_bad)


def shipped_pairs() -> Iterator[Record]:
    """The 102 pairs that attnscan ships."""
    with (Path(__file__).parent / "data" / "pairs.csv").open(encoding="utf-8", newline="") as lines:
        yield from good_records(
            _text_rows(
                lines, "attnscan/inputs/data/pairs.csv", ".csv", FileReading(), lambda _: None
            ),
            None,
        )


def random_pairs(seed: int = 0) -> Iterator[Record]:
    """Sequences of random words of the shipped pairs, each twice over behind a full stop, which begins the text."""
    texts = (text for record in shipped_pairs() for text in record.pair.texts)
    words = sorted(
        {word for text in texts for word in text.split() if word.isalpha() and word.islower()}
    )
    draw = random.Random(seed)
    for number in range(1, RANDOM_SEQUENCES + 1):
        sequence = " ".join(draw.sample(words, 25))
        yield Record(
            Pair(f". {sequence} {sequence}"),
            f"{RANDOM}: sequence {number}",
            place=Place(RANDOM, number),
        )


def about_how_many(names: Sequence[str]) -> int | None:
    """About how many pairs files of text hold, by their lines; None for other files."""
    files, total = local_files(names), 0
    for file in files or ["-"]:
        if not file.lower().endswith((".csv", ".tsv", ".txt", ".jsonl", ".ndjson")):
            return None
        with open(file, "rb") as lines:  # noqa: PTH123
            total += sum(1 for _ in lines)
    return total


def _lines(stream: IO[bytes], name: str, encoding: str | None, note: OnNote) -> Iterator[str]:
    """The lines of a stream, with their ends, decoded from UTF-8, or UTF-16 by its mark, or what is asked for.

    From the first line that is not UTF-8 they are Windows-1252, unless UTF-8 beyond ASCII came before. What cannot be
    decoded is kept as U+DC80 to U+DCFF, which no sentence may have.
    """
    first = stream.readline()
    has_mark = (
        first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and first[2:4] != b"\0\0"
    )  # as UTF-32's
    codec = "utf-16" if has_mark else encoding or "utf-8"
    if codecs.lookup(codec).name.startswith(
        ("utf-16", "utf-32")
    ):  # line ends are no bytes, so it is read whole
        text = (first + stream.read()).decode(codec, "surrogatepass")
        yield from io.StringIO(text.lstrip("\ufeff"), newline="\n")
        return
    if b"\0" in first or first.startswith(_NO_TEXT):
        raise PairsError(
            f"{name} is no text: its first bytes are {first[:9]!r}",
            "unpack it, call it by its format, such as .gz, .xlsx or .parquet, or pass --encoding NAME",
        )
    may_be_windows = encoding is None
    for line in chain([first.removeprefix(codecs.BOM_UTF8)], stream):
        try:
            text = line.decode(codec)
        except UnicodeDecodeError:
            text = line.decode("utf-8", "surrogateescape")
            if may_be_windows and line.decode("utf-8", "ignore").isascii():
                codec, text = "cp1252", line.decode("cp1252", "surrogateescape")
                note(
                    f"{name}: it is not UTF-8, and is read as Windows-1252 (--encoding NAME if it is not)"
                )
        may_be_windows = may_be_windows and text.isascii()
        yield text


def _text_rows(
    lines: Iterator[str], name: str, suffix: str, reading: FileReading, note: OnNote
) -> Rows:
    """The rows of a text by its format; without a suffix, the first line that is not blank tells that."""
    start: list[str] = []
    while not (start and start[-1].strip()) and (line := next(lines, "")):
        start.append(line)
    first, lines = (start or [""])[-1], chain(start, lines)
    if not suffix:
        looks = {"[": ".json", "{": ".json" if first.strip() == "{" else ".jsonl"}
        suffix = looks.get(first.lstrip()[:1], ".tsv" if "\t" in first else ".csv")
    elif suffix == ".txt" and ("\t" in first.strip() or reading.header):
        suffix = ".tsv"
    if suffix in (".csv", ".tsv"):
        return _table_rows(
            _cells_of(lines, name, suffix, first, reading, note), name, reading, note
        )
    if suffix == ".conllu":
        return trees_of(lines, name)
    if suffix != ".txt":
        return records_of(_json_records(lines, name, suffix), name, reading)
    columns = pick_columns(reading, ["sentence"])  # so --columns that name others are refused
    full = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    return (
        columns.record(f"{name}:{number}", name, number, [line.rstrip("\r\n")])
        for number, line in full
    )


def _cells_of(
    lines: Iterator[str], name: str, suffix: str, first: str, reading: FileReading, note: OnNote
) -> Cells:
    """The cells of CSV, which may be separated by semicolons or tabs as well, or of TSV."""
    cells_by = {
        mark: next(csv.reader([first.replace("\r", " ")], delimiter=mark), [])
        for mark in _SEPARATORS
    }
    if suffix == ".tsv":
        separator = "\t"
    else:  # the first line has known columns by it, else most cells
        separator = max(
            cells_by,
            key=lambda mark: (known_among(cells_by[mark]) is not None, len(cells_by[mark])),
        )
        if separator != ",":
            note(f"{name}: its columns are read as separated by {_SEPARATORS[separator]}")
    is_quoted: bool | None = reading.quoting == "csv" or (
        reading.quoting == "auto" and suffix == ".csv"
    )
    if reading.quoting == "auto" and suffix == ".tsv":
        sample = list(islice(lines, _SAMPLE))
        is_quoted = any('"' in line for line in sample) and _is_quoted(sample, separator)
        lines = chain(sample, lines)
        if is_quoted:
            note(
                f"{name}: its cells are quoted, and are read so (--quoting none if the quotes are text)"
            )
        elif is_quoted is None:
            note(f"{name}: quotes around cells are read as text (--quoting csv if they are not)")
    return _cells(lines, name, separator, bool(is_quoted))


def _table_rows(table: Cells, name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a table, whose first may name the columns."""
    start = next(table, None)
    if start is None or isinstance(start, PairsError):
        raise PairsError(
            start.what if start else f"{name} is empty", "its first line must name the columns"
        )
    columns, has_names = _begin_table(
        name, ["" if cell is None else str(cell) for cell in start[1]], reading, note
    )
    width = len(start[1]) if has_names else 1 + max(columns.places)
    for number, row in enumerate(table if has_names else chain([start], table), 1):
        if isinstance(row, PairsError):
            yield row
        elif row is not None and (len(row[1]) == width or (len(row[1]) > width and not has_names)):
            yield columns.record(row[0], name, number, row[1])
        elif row is not None:
            yield bad_record(
                row[0], f"its number of fields is {len(row[1])}, where {width} are expected"
            )


def _begin_table(
    name: str, cells: Sequence[str], reading: FileReading, note: OnNote
) -> tuple[Columns, bool]:
    """Choose the columns to read by the cells of the first row; return also whether that row names the columns."""
    numbers = [str(number) for number in range(1, len(cells) + 1)]
    has_names, wanted = (
        reading.header,
        reading.columns or ([] if known_among(cells) or len(cells) > 2 else numbers),
    )
    if has_names is None:  # cells in the place of sentences may be such, or names
        doubtful = [
            cells[int(column) - 1] for column in wanted if column in numbers and column not in cells
        ]
        has_names = not any(map(_SENTENCE.search, doubtful))
        if not has_names:
            note(
                f"{name}: its first line looks like data, and is read as data (--header if it names the columns)"
            )
        elif any(" " in cell.strip() for cell in doubtful):
            note(
                f"{name}: its first line looks like names of columns, and is read as such (--no-header if it is data)"
            )
    try:
        return pick_columns(reading, cells if has_names else numbers), has_names
    except PairsError as error:
        hint = "; if its first line is data, pass --no-header" if has_names else ""
        raise PairsError(error.what, f"{error.remedy}{hint}") from None


def _cells(lines: Iterable[str], name: str, separator: str, is_quoted: bool) -> Cells:
    """The cells of each row; one that is not valid costs the lines up to where csv gives it up."""
    quoting: Literal[0, 3] = (
        csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    )  # GLUE's quotes are text
    reader = csv.reader(lines, delimiter=separator, quoting=quoting, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
            if len(cells) > 1 or "".join(cells).strip():
                yield f"{name}:{number}", cells
        except StopIteration:
            return
        except csv.Error as error:
            lines_lost = f" (up to line {reader.line_num})" if reader.line_num > number else ""
            yield PairsError(
                f"{name}:{number}: is not valid CSV: {str(error).partition(' - ')[0]}{lines_lost}",
                "correct it, pass --quoting none if its quotes are text, or --skip-bad to skip it",
            )


def _is_quoted(sample: Sequence[str], separator: str) -> bool | None:
    """Whether a table was written with quotes as CSV has them: it is whole only so, or they are doubled; None: open."""
    tables = (_cells(sample, "", separator, is_quoted) for is_quoted in (False, True))
    plain, quoted = (
        [row[1] if isinstance(row, tuple) else [] for row in table] for table in tables
    )
    widths, widths_quoted = set(map(len, plain)), set(map(len, quoted))
    if quoted == plain or len(widths_quoted) > 1 or widths_quoted == {0}:
        return False
    cells = list(chain.from_iterable(plain))
    doubled = any(re.fullmatch('"([^"]|"")*""([^"]|"")*"', cell) for cell in cells)
    return (
        doubled or len(widths) > 1 or all(cell[:1] == '"' for cell in cells[: max(widths)]) or None
    )


def _parse_json(text: str, where: str) -> Any:
    """The value of a JSON text, or a PairsError if it is not valid."""
    try:
        return json.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # also a number of more than 4,300 digits, or lists within lists
        return bad_record(where, f"is not valid JSON: {str(error).partition(';')[0]}")


def _json_records(lines: Iterable[str], name: str, suffix: str) -> Iterator[tuple[str, Any]]:
    """The records of JSON lines, or of a document, with where they are."""
    if suffix == ".json":
        text = "".join(lines)
        document = _parse_json(text if text.strip() else "[]", name)
        if not isinstance(document, PairsError):
            yield from (
                (f"{name}: record {number}", record)
                for number, record in enumerate(_records_in(document), 1)
            )
            return
        if "Extra data" not in document.what:
            raise PairsError(document.what, "it must hold a list of records")
        lines = io.StringIO(text, newline="\n")  # JSON lines, as pandas and `datasets` call them
    full = ((f"{name}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())
    yield from ((where, _parse_json(line, where)) for where, line in full)


def _records_in(document: Any) -> list[Any]:
    """A list's items; an object's columns, joined by their keys if they have some, or its only list; or itself."""
    columns = list(document.values()) if isinstance(document, dict) else []
    lists = [column for column in columns if isinstance(column, list)]
    if len(columns) > 1 and all(isinstance(column, dict) for column in columns):
        keys = dict.fromkeys(chain.from_iterable(columns))
        return [{name: cells.get(key) for name, cells in document.items()} for key in keys]
    if len(lists) == 1 and all(isinstance(row, dict) for row in lists[0]):
        return lists[0]
    if lists and len(lists) == len(columns) and len(set(map(len, lists))) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*lists, strict=True)]
    return document if isinstance(document, list) else [document]


def _arrow_rows(file: IO[bytes], name: str, suffix: str, reading: FileReading) -> Rows:
    """The rows of a Parquet file, an Arrow file, or an Arrow stream, as `datasets` keeps them."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
        import pyarrow.parquet
    if suffix in (
        ".parquet",
        ".pq",
    ):  # a checksum is seldom there, but where one is, a changed letter is found
        table = pa.parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        names = table.schema_arrow.names
    else:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        table = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        names = table.schema.names
    columns = pick_columns(reading, names)
    wanted = [
        (names[place], names[:place].count(names[place])) for place in columns.places
    ]  # names may be there twice
    if suffix in (".parquet", ".pq"):
        batches = table.iter_batches(_ROWS, columns=list(dict(wanted)), use_threads=False)
    else:
        batches = map(table.get_batch, range(table.num_record_batches)) if is_file else iter(table)
    numbers = count(1)
    for batch in batches:
        batch.validate(full=True)  # a file that lies about itself would show other memory
        places = [batch.schema.get_all_field_indices(column)[earlier] for column, earlier in wanted]
        rows = zip(*(batch.column(place).to_pylist() for place in places), strict=True)
        for cells, number in zip(rows, numbers, strict=False):
            yield columns.record(
                f"{name}: row {number}", name, number, dict(zip(columns.places, cells, strict=True))
            )


def _sheet_rows(file: IO[bytes], name: str, reading: FileReading, note: OnNote) -> Rows:
    """The rows of a workbook's first visible sheet; blank ones count. `note` is told which, if there are several."""
    with needs(f"reading {name} needs python-calamine", "excel", PairsError):
        from python_calamine import SheetTypeEnum, SheetVisibleEnum
    import pandas as pd

    book = pd.ExcelFile(file, engine="calamine")
    of_cells = (
        SheetTypeEnum.WorkSheet,
        SheetVisibleEnum.Visible,
    )  # a chart may have a sheet of its own, before these
    sheet = next(
        sheet.name for sheet in book.book.sheets_metadata if (sheet.typ, sheet.visible) == of_cells
    )
    if len(book.sheet_names) > 1:
        note(f"{name}: its first visible sheet is read, {sheet!r}")
    frame = pd.read_excel(book, sheet, header=None, dtype=object, keep_default_na=False).replace(
        "", None
    )
    rows = enumerate(zip(frame.itertuples(index=False), frame.isna().all(axis=1), strict=True), 1)
    table = (
        None if is_blank else (f"{name}: row {number}", cells) for number, (cells, is_blank) in rows
    )
    return _table_rows(dropwhile(lambda row: row is None, table), name, reading, note)
