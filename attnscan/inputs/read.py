"""Files of pairs -> records with file and line, whatever their format; the shipped pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from attnscan.inputs.annotations import read_trees
from attnscan.inputs.decoding import OnNote, decode_lines
from attnscan.inputs.delimited import delimited_rows
from attnscan.inputs.files import TABLES, files_named, format_of, local_files, opened, shown
from attnscan.inputs.json_records import json_records
from attnscan.inputs.records import (
    BY_FILE,
    FileReading,
    OnBad,
    Rows,
    good_records,
    parse_records,
    pick_columns,
)
from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.inputs.tables import arrow_rows, sheet_rows

RANDOM = "random"
"""What stands for `random_pairs` in place of a file."""
RANDOM_SEQUENCES = 64


def read_pairs(
    names: Sequence[str],
    reading: FileReading = FileReading(),
    on_bad: OnBad | None = None,
    on_note: OnNote = lambda _: None,
) -> Iterator[Record]:
    """Read the pairs of files as a stream.

    Raises: PairsError, at once if a file is not there, or later.
    """
    return _read_files(files_named(names), reading, on_bad, on_note)


def _read_files(
    files: Sequence[str], reading: FileReading, on_bad: OnBad | None, note: OnNote
) -> Iterator[Record]:
    for file in files:
        name = shown(file)
        suffix = format_of(file)
        with opened(file) as stream:
            if suffix == ".xlsx":
                rows = sheet_rows(stream, name, reading, note)
            elif suffix in TABLES:
                rows = arrow_rows(stream, name, suffix, reading)
            else:
                lines = decode_lines(stream, name, reading.encoding, note)
                rows = _text_rows(lines, name, suffix, reading, note)
            records = good_records(rows, on_bad)
            yield from map(_group_by_file, records) if reading.group == BY_FILE else records


def _group_by_file(record: Record) -> Record:
    return replace(record, place=replace(record.place, group=record.place.file))


def shipped_pairs() -> Iterator[Record]:
    """The 336 pairs that attnscan ships."""
    path = Path(__file__).parent / "data" / "pairs.csv"
    name = "attnscan/inputs/data/pairs.csv"
    with path.open(encoding="utf-8", newline="") as lines:
        rows = _text_rows(lines, name, ".csv", FileReading(), lambda _: None)
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


def _text_rows(
    lines: Iterator[str], name: str, suffix: str, reading: FileReading, note: OnNote
) -> Rows:
    """The rows of a text by its format; without a suffix, the first full line tells that."""
    start: list[str] = []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    first = start[-1] if start else ""
    lines = chain(start, lines)
    suffix = _text_format(suffix, first, reading)
    if suffix in (".csv", ".tsv"):
        return delimited_rows(lines, name, suffix, first, reading, note)
    if suffix == ".conllu":
        return read_trees(lines, name)
    if suffix == ".txt":
        return _line_rows(lines, name, reading)
    return parse_records(json_records(lines, name, suffix), name, reading)


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


def _line_rows(lines: Iterator[str], name: str, reading: FileReading) -> Rows:
    """A sentence a line."""
    columns = pick_columns(reading, ["sentence"])  # so --columns that name others are refused
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield columns.record(f"{name}:{number}", name, number, [line.rstrip("\r\n")])
