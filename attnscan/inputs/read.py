"""Files of pairs -> records with file and line, whatever their format; the shipped pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from attnscan.errors import PairsError
from attnscan.inputs.annotations import read_trees
from attnscan.inputs.decoding import decode_lines
from attnscan.inputs.delimited import delimited_rows
from attnscan.inputs.files import TABLES, files_named, format_of, local_files, opened, shown
from attnscan.inputs.json_records import json_records
from attnscan.inputs.links import parse_lines, read_links
from attnscan.inputs.records import (
    BY_FILE,
    FileReading,
    OnBad,
    Rows,
    good_records,
    parse_records,
    pick_columns,
)
from attnscan.inputs.report import FileReport, OnNote, collected, ignore_note
from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.inputs.tables import arrow_rows, sheet_rows

RANDOM = "random"
"""What stands for `random_pairs` in place of a file."""
RANDOM_SEQUENCES = 64
_FORMAT_NAMES = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".txt": "lines of text",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".xlsx": "Excel workbook",
    ".conllu": "CoNLL-U",
}


def read_pairs(
    names: Sequence[str],
    reading: FileReading = FileReading(),
    on_bad: OnBad | None = None,
    on_note: OnNote = ignore_note,
) -> Iterator[Record]:
    """Read the pairs of files as a stream.

    Raises: PairsError, at once if a file is not there, or later.
    """
    files = files_named(names)
    reports = collected()
    return _read_files(files, reading, on_bad, on_note, reports)


def _read_files(
    files: Sequence[str],
    reading: FileReading,
    on_bad: OnBad | None,
    on_note: OnNote,
    reports: list[FileReport],
) -> Iterator[Record]:
    for file in files:
        suffix = format_of(file)
        report = FileReport(shown(file), on_note, _FORMAT_NAMES.get(suffix, ""))
        reports.append(report)
        with opened(file) as stream:
            if suffix == ".xlsx":
                rows = sheet_rows(stream, reading, report)
            elif suffix in TABLES:
                rows = arrow_rows(stream, suffix, reading, report)
            else:
                lines = decode_lines(stream, reading.encoding, report)
                rows = _text_rows(lines, suffix, reading, report)
            records = good_records(rows, on_bad)
            yield from map(_group_by_file, records) if reading.group == BY_FILE else records


def read_linked(
    names: Sequence[str],
    on_bad: OnBad | None = None,
    on_note: OnNote = ignore_note,
    *,
    with_treebanks: bool = False,
) -> Iterator[Record]:
    """Read files of links, as `inputs/links.py` says, as a stream.

    With `with_treebanks` a file may also be a treebank, as its suffix or its first line says.
    Raises: PairsError, at once if a file is not there or of another format, or later.
    """
    files = files_named(names)
    for file in files:
        suffix = format_of(file)
        if suffix == ".conllu" and not with_treebanks:
            raise PairsError(
                f"{shown(file)} is a treebank, and no file of links", "give it as ``treebank``"
            )
        if suffix not in ("", ".jsonl", ".ndjson", ".conllu"):
            raise PairsError(
                f"{shown(file)} is not a file of links", "write JSON lines, into a file .jsonl"
            )
    reports = collected()
    return _read_linked_files(files, on_bad, on_note, reports, with_treebanks=with_treebanks)


def _read_linked_files(
    files: Sequence[str],
    on_bad: OnBad | None,
    on_note: OnNote,
    reports: list[FileReport],
    *,
    with_treebanks: bool,
) -> Iterator[Record]:
    for file in files:
        suffix = format_of(file)
        report = FileReport(shown(file), on_note)
        reports.append(report)
        with opened(file) as stream:
            # links are written by programs: what is not UTF-8 is an error
            encoding = None if suffix == ".conllu" else "utf-8"
            lines = decode_lines(stream, encoding, report)
            if with_treebanks and not suffix:
                first = next(lines, "")
                lines = chain([first], lines)
                suffix = ".jsonl" if first.lstrip().startswith("{") else ".conllu"
            rows = _linked_rows(lines, suffix, report)
            yield from good_records(rows, on_bad)


def _linked_rows(lines: Iterator[str], suffix: str, report: FileReport) -> Rows:
    if suffix == ".conllu":
        report.format = _FORMAT_NAMES[suffix]
        return read_trees(lines, report.file)
    report.format = _FORMAT_NAMES[".jsonl"]
    return _not_empty(read_links(parse_lines(lines, report.file), report), report.file)


def _not_empty(rows: Rows, file: str) -> Rows:
    """The rows of a file of links. Raises: PairsError if there is none."""
    first = next(rows, None)
    if first is None:
        raise PairsError(
            f"{file} is empty: it has no record",
            'write lines such as {"text": "Anna lost her keys .", "links": [["coref", 2, 0]]}',
        )
    yield first
    yield from rows


def _group_by_file(record: Record) -> Record:
    return replace(record, place=replace(record.place, group=record.place.file))


def shipped_pairs() -> Iterator[Record]:
    """The 336 pairs that attnscan ships."""
    path = Path(__file__).parent / "data" / "pairs.csv"
    report = FileReport("attnscan/inputs/data/pairs.csv")
    with path.open(encoding="utf-8", newline="") as lines:
        rows = _text_rows(lines, ".csv", FileReading(), report)
        yield from good_records(rows, None)


def random_pairs(seed: int = 0) -> Iterator[Record]:
    """Sequences of random words of the shipped pairs.

    Each stands twice over behind a full stop, which begins the text.
    """
    texts = chain.from_iterable(record.pair.texts for record in shipped_pairs())
    words = chain.from_iterable(text.split() for text in texts)
    choices = sorted({word for word in words if word.isalpha() and word.islower()})
    draw = random.Random(seed)
    for number in range(1, RANDOM_SEQUENCES + 1):
        sequence = " ".join(draw.sample(choices, 25))
        pair = Pair(f". {sequence} {sequence}")
        yield Record(pair, f"{RANDOM}: sequence {number}", place=Place(RANDOM, number))


def about_how_many(names: Sequence[str]) -> int | None:
    """About how many pairs files of text hold, by their lines; None for other files."""
    total = 0
    for file in local_files(names) or ["-"]:
        if not file.lower().endswith((".csv", ".tsv", ".txt", ".jsonl", ".ndjson")):
            return None
        with Path(file).open("rb") as lines:
            total += sum(1 for _ in lines)
    return total


def _text_rows(lines: Iterator[str], suffix: str, reading: FileReading, report: FileReport) -> Rows:
    """The rows of a text by its format; without a suffix, the first full line tells that."""
    start: list[str] = []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    first = start[-1] if start else ""
    lines = chain(start, lines)
    suffix = _text_format(suffix, first, reading)
    report.format = _FORMAT_NAMES[suffix]
    if suffix in (".csv", ".tsv"):
        return delimited_rows(lines, suffix, first, reading, report)
    if suffix == ".conllu":
        return read_trees(lines, report.file)
    if suffix == ".txt":
        return _line_rows(lines, reading, report)
    return parse_records(json_records(lines, suffix, reading, report), reading, report)


def _text_format(suffix: str, first: str, reading: FileReading) -> str:
    """The format of a text, which is that of its suffix unless its first full line says more."""
    if suffix == ".txt":
        is_table = "\t" in first.strip() or reading.header
        return ".tsv" if is_table else ".txt"
    if suffix:
        return suffix
    start = first.lstrip()[:1]
    if start == "{":
        return ".json" if first.strip() == "{" else ".jsonl"
    if start == "[":
        return ".json"
    return ".tsv" if "\t" in first else ".csv"


def _line_rows(lines: Iterator[str], reading: FileReading, report: FileReport) -> Rows:
    """A sentence a line."""
    columns = pick_columns(reading, ["sentence"])  # so --columns that name others are refused
    columns.describe(report)
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{report.file}:{number}"
            yield columns.record(where, report.file, number, [line.rstrip("\r\n")])
