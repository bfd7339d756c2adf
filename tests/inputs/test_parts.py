"""Parts of a file have the very rows that one reader finds in the whole, wherever it is cut."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draws import draws
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pair_files import parquet

from attnscan.errors import PairsError
from attnscan.inputs.columns import Reading
from attnscan.inputs.formats import lines as lines_module
from attnscan.inputs.formats.part import WHOLE, Bookmark, Part
from attnscan.inputs.pairs import read_pairs
from attnscan.inputs.parts import Starts, can_be_cut, parts_at, read_through, starts_of
from attnscan.inputs.places.names import suffix_in
from attnscan.inputs.readers import rows

rounds = settings(deadline=None, max_examples=draws(150))
scraps = [
    "a",
    "b c",
    "it said",
    ",",
    "\t",
    '"',
    '""',
    '",',
    '"\t',
    ',"',
    '\t"',
    "\n",
    "\n",
    "\n\n",
    " \n",
    "\r\n",
    "\r",
]
scraps += [
    "a\tb\n",
    '"a"\t"b"\n',
    "a,b\n",
    '"a\nb",c\n',
    '"a","b ""c"""\n',
    '"a\n\n\nb"\t"c ""d"""\n',
    "é",
    "\0",
    "\ud800",
]
texts = st.lists(st.sampled_from(scraps), max_size=60).map("".join)
records = [
    {"text1": "a", "text2": "b"},
    {"text2": "d", "text1": "c", "x": 1},
    {"text1": "a"},
    {"x": 1},
    ["a", "b"],
    "a",
]
json_lines = ['{"text1": "a', "", "  ", "é", *map(json.dumps, records)]


@contextmanager
def small_bounds() -> Iterator[None]:
    """Rows of a few bytes and lines are too long, as those of megabytes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "MAX_BYTES", 40)
        patch.setattr(lines_module, "MAX_LINES", 4)
        yield


def found(path: Path, reading: Reading, part: Part, notes: list[str]) -> Iterator[object]:
    """What is read; an error says what it says, wherever it is raised."""
    try:
        with path.open("rb") as stream:
            for row in rows(stream, path.name, suffix_in(path.name), reading, notes.append, part):
                yield (type(row), str(row)) if isinstance(row, PairsError) else row
    except PairsError as error:
        yield "raised", str(error)


def starts_in(path: Path, reading: Reading, piece: int) -> Starts:
    """Where its parts start, all trials made here."""
    cutting, outcomes = starts_of(str(path), path.stat().st_size, piece), None
    try:
        while True:
            trials = next(cutting) if outcomes is None else cutting.send(outcomes)
            outcomes = [read_through(str(path), reading, trial) for trial in trials]
    except StopIteration as done:
        starts: Starts = done.value
        return starts


def assert_same_rows(path: Path, reading: Reading, piece: int) -> int:
    """Of the parts together, and of the whole; returns how many parts there are."""
    notes: list[str] = []
    expected = list(found(path, reading, WHOLE, notes))
    starts = starts_in(path, reading, piece)
    told = dict[str, None]()
    together: list[object] = []
    for part in parts_at(starts):
        own: list[str] = []
        together += found(path, reading, part, own)
        told |= dict.fromkeys(own)
        if together and isinstance(together[-1], tuple) and together[-1][0] == "raised":
            break
    assert together == expected
    assert list(told) == notes
    assert starts[0] == Bookmark() and list(starts) == sorted(starts, key=lambda start: start.offset)
    return len(starts)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


@rounds
@given(
    text=texts,
    header=st.sampled_from(["text1,text2\n", "text1\ttext2\n", '"text1"\t"text2"\n', "sep=;\ntext1;text2\n", "", "\n"]),
    name=st.sampled_from(["p.csv", "p.tsv", "p.txt"]),
    reading=st.builds(
        Reading, header=st.sampled_from([None, True, False]), quoting=st.sampled_from(["auto", "csv", "none"])
    ),
    piece=st.integers(30, 90),
    bounded=st.booleans(),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
@example("a\tb\n" * 12 + '"x\ty\n' + '"a"\t"b ""c"""\n' * 12, "text1\ttext2\n", "p.tsv", Reading(), 40, False, b"")
@example("a\tb\n" * 12 + '"a\n\n\nb"\t"c ""d"""\n' * 12, "text1\ttext2\n", "p.tsv", Reading(), 40, False, b"")
@example("a\tb\n" * 12 + '"a ""b"""\t"c"\n' * 12, "text1\ttext2\n", "p.tsv", Reading(), 40, False, b"")
@example('"a\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nb",c\n' * 30, "text1,text2\n", "p.csv", Reading(), 30, False, b"")
@example('"' + "a\n" * 80, "text1,text2\n", "p.csv", Reading(), 30, True, b"")
@example("a" * 400 + "\nb,c\n", "text1,text2\n", "p.csv", Reading(), 30, True, b"")
def test_texts(
    directory: Path, text: str, header: str, name: str, reading: Reading, piece: int, bounded: bool, mark: bytes
) -> None:
    path = directory / name
    path.write_bytes(mark + (header + text).encode(errors="surrogatepass"))
    if bounded:
        with small_bounds():
            assert_same_rows(path, reading, piece)
    else:
        assert_same_rows(path, reading, piece)


@rounds
@given(
    lines=st.lists(st.sampled_from(json_lines), max_size=20),
    end=st.sampled_from(["\n", "\r\n"]),
    piece=st.integers(30, 90),
)
@example(['{"text1": "a'] * 3 + ['{"x":1,"y":2,"z":3}', '{"text1": "a", "text2": "b"}'], "\n", 30)
@example(['{"text1": "a'] * 3 + ['{"x":1,"y":2,"z":3}'] + ['{"text1": "a", "text2": "b"}'] * 9, "\n", 30)
@example(['{"x":1,"y":2,"z":3}'] * 2 + ['{"text1": "a", "text2": "b"}'] * 5, "\n", 30)
@example(['{"x":1,"y":2,"z":3}'] * 9 + ['{"text1": "a", "text2": "b"}'] * 5, "\n", 30)
def test_json_lines(directory: Path, lines: list[str], end: str, piece: int) -> None:
    path = directory / "p.jsonl"
    path.write_text(end.join(lines), newline="")
    assert_same_rows(path, Reading(), piece)


@rounds
@given(count=st.integers(0, 60), group=st.integers(1, 9), piece=st.integers(1, 2000), repeated=st.booleans())
def test_row_groups(directory: Path, count: int, group: int, piece: int, repeated: bool) -> None:
    path = directory / "p.parquet"
    sentences = [f"the {'cat' if repeated else number}" for number in range(count)]
    columns = {"text1": pa.array(sentences, pa.string()), "text2": pa.array(sentences[::-1], pa.string())}
    path.write_bytes(parquet(columns, row_group_size=group))
    assert assert_same_rows(path, Reading(), piece) <= max(1, -(-count // group))


def test_many_parts_of_a_file_whose_cells_have_line_ends(directory: Path) -> None:
    """Rows of up to 40 lines in pieces of 1,000 bytes: half of the guesses are wrong, and a round mends them."""
    draw, path = random.Random(0), directory / "many.csv"
    cells = ["\n".join(["it said"] * draw.randint(1, 40)) for _ in range(400)]
    path.write_text("text1,text2\n" + "".join(f'"{cell}","{cell}, ""so"""\n' for cell in cells))
    asked = []
    cutting, outcomes = starts_of(str(path), path.stat().st_size, 1000), None
    with pytest.raises(StopIteration):
        while True:
            trials = next(cutting) if outcomes is None else cutting.send(outcomes)
            asked.append(len(trials))
            outcomes = [read_through(str(path), Reading(), trial) for trial in trials]
    assert len(asked) <= 4 and asked[0] == 1 and asked[1] > 100
    assert assert_same_rows(path, Reading(), 1000) > 100


def test_a_part_says_lines_and_rows_as_the_whole_does(directory: Path) -> None:
    path = directory / "p.csv"
    path.write_text("text1,text2\n" + 'a,b\n\n"c\nd",e\nbad\n' * 20)
    starts = starts_in(path, Reading(), 50)
    assert len(starts) > 5
    last: list[Any] = list(found(path, Reading(), parts_at(starts)[-1], []))
    number = next(row.number for row in last if not isinstance(row[0], type))
    with path.open("rb") as stream:
        first_line, first_row = stream.read(starts[-1].offset).count(b"\n"), starts[-1].row
    assert (starts[-1].line, first_row) == (first_line, number - 1)


def test_what_cannot_be_cut_is_not(directory: Path) -> None:
    assert all(map(can_be_cut, ("a.csv", "s3://b/a.TSV", "a.jsonl", "a.ndjson", "a.txt", "a.pq")))
    assert not any(map(can_be_cut, ("a.csv.gz", "a.json", "a.parquet.zst", "a.arrow", "a.xlsx")))
    path = directory / "small.csv"
    path.write_text("text1,text2\na,b\n")
    assert starts_in(path, Reading(), 1000) == (Bookmark(),)


def test_a_footer_that_lies_leaves_the_file_whole(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = directory / "p.parquet"
    path.write_bytes(parquet({"text": ["a"] * 9}, row_group_size=3))
    assert len(starts_in(path, Reading(), 1)) == 3
    told = pq.ParquetFile(io.BytesIO(path.read_bytes())).metadata

    class Lying:
        num_rows, num_row_groups, row_group = 10, told.num_row_groups, staticmethod(told.row_group)

    monkeypatch.setattr(pq, "ParquetFile", lambda *_, **__: type("File", (), {"metadata": Lying, "num_row_groups": 3}))
    assert starts_in(path, Reading(), 1) == (Bookmark(),)


def test_records_are_those_that_one_machine_reads(directory: Path) -> None:
    path = directory / "places.tsv"
    path.write_text("id\ttext1\ttext2\n" + "".join(f"{at}\ta {at}\tb\n" for at in range(50)))
    reading = Reading(id="id")
    with path.open("rb") as stream:
        whole = [row.where for row in rows(stream, str(path), ".tsv", reading) if not isinstance(row, PairsError)]
    assert whole == [record.where for record in read_pairs([str(path)], reading)]
    assert assert_same_rows(path, reading, 60) > 5
