"""Files of pairs hold the texts that pandas and pyarrow, and by these `datasets`, read in them.

What is read otherwise on purpose is in `ON_PURPOSE`, each with its reason.
"""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from support.pair_files import Make, skipping

from attnscan.errors import PairsError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading

FRAME = pd.DataFrame(
    {
        "premise": ["The lamp is on.", "Two men walk home.", 'She said "no", twice.', "Ça va?"],
        "hypothesis": ["There is light.", "People are moving.", "She declined; again.", "日本 😀"],
        "idx": [3, 1, 4, 1],
    },
    index=["r1", "r2", "r3", "r4"],
)
Read = Callable[[Path], pd.DataFrame]


def as_csv(**options: Any) -> Read:
    def read(path: Path) -> pd.DataFrame:
        return pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True, **options)

    return read


def as_json(**options: Any) -> Read:
    return lambda path: pd.read_json(path, dtype=False, convert_dates=False, **options)


def csv_of(**options: Any) -> bytes:
    return FRAME.to_csv(index=False, **options).encode()


def json_of(**options: Any) -> bytes:
    return FRAME.to_json(**options).encode()


def written(write: Callable[[Any, Any], object], table: Any) -> bytes:
    file = io.BytesIO()
    write(table, file)
    return file.getvalue()


def stream_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def workbook(frame: pd.DataFrame, **options: Any) -> bytes:
    file = io.BytesIO()
    frame.to_excel(file, index=False, engine="openpyxl", **options)
    return file.getvalue()


TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
SPLITS = pa.table({"premise": ["a b", "c"], "hypothesis": ["d", None], "label": [0, 1]})
LINES = "".join(f"{json.dumps(row)}\n" for row in FRAME.to_dict("records"))
NO_KEYS = '{"sentence": "s1"}\n{"question": "q2", "sentence": "s2"}\n{"question": "q3"}\n'
BY_EXCEL = workbook(FRAME)

FILES: dict[str, tuple[str, bytes, Read]] = {
    "plain": ("p.csv", csv_of(), as_csv()),
    "all quoted": ("p.csv", csv_of(quoting=1), as_csv()),
    "Windows line ends": ("p.csv", csv_of(lineterminator="\r\n"), as_csv()),
    "old Macintosh line ends": ("p.csv", csv_of(lineterminator="\r"), as_csv()),
    "mark of UTF-8": ("p.csv", b"\xef\xbb\xbf" + csv_of(), as_csv()),
    "UTF-16": ("p.csv", csv_of().decode().encode("utf-16"), as_csv(encoding="utf-16")),
    "semicolons": ("p.csv", csv_of(sep=";"), as_csv(sep=";")),
    "tabs in CSV": ("p.csv", csv_of(sep="\t"), as_csv(sep="\t")),
    "semicolons, quoted": ("p.csv", csv_of(sep=";", quoting=1), as_csv(sep=";")),
    "spaces behind commas": (
        "p.csv",
        b'premise, hypothesis\n"A, b.", "C d."\nx y,  z\n',
        as_csv(),
    ),
    "spaces before the first cell": ("p.csv", b'  premise,hypothesis\n  "a, b", c\n', as_csv()),
    "cells that end with spaces": ("p.csv", b"premise,hypothesis\na  ,b \n", as_csv()),
    "blank lines": ("p.csv", b"premise,hypothesis\n\na,b\n\n\nc,d\n", as_csv()),
    "line ends in cells": ("p.csv", b'premise,hypothesis\n"a\nb","c\r\nd"\n', as_csv()),
    "returns in cells": ("p.csv", b'premise,hypothesis\n"a\rb","c"\n', as_csv()),
    "NA is text": ("p.csv", b"premise,hypothesis\nNA,null\nNaN,None\n", as_csv()),
    "numbers are text": ("p.csv", b"premise,hypothesis\n1,2.50\n007,1e5\n", as_csv()),
    "one column": ("p.csv", b"text\na b\nc\n", as_csv()),
    "more columns": ("p.csv", b"id,label,premise,hypothesis\n1,x,a,b\n", as_csv()),
    "JSON, columns": ("p.json", json_of(orient="columns"), as_json(orient="columns")),
    "JSON, index": ("p.json", json_of(orient="index"), as_json(orient="index")),
    "JSON, index of numbers": (
        "p.json",
        FRAME.reset_index(drop=True).to_json(orient="index").encode(),
        as_json(orient="index"),
    ),
    "JSON, index of one": (
        "p.json",
        FRAME.head(1).to_json(orient="index").encode(),
        as_json(orient="index"),
    ),
    "JSON, one column": (
        "p.json",
        FRAME[["premise"]].rename(columns={"premise": "text"}).to_json().encode(),
        as_json(),
    ),
    "JSON, records": ("p.json", json_of(orient="records"), as_json(orient="records")),
    "JSON, indented": ("p.json", json_of(orient="records", indent=2), as_json(orient="records")),
    "JSON, split": ("p.json", json_of(orient="split"), as_json(orient="split")),
    "JSON, table": ("p.json", json_of(orient="table"), as_json(orient="table")),
    "JSON lines": ("p.jsonl", LINES.encode(), as_json(lines=True)),
    "JSON lines in .json": ("p.json", LINES.encode(), as_json(lines=True)),
    "JSON lines, old Macintosh": (
        "p.jsonl",
        LINES.replace("\n", "\r").encode(),
        lambda path: pd.DataFrame(map(json.loads, path.read_text().splitlines())),
    ),
    "JSON lines, keys left out": ("p.jsonl", NO_KEYS.encode(), as_json(lines=True)),
    "Parquet": ("p.parquet", written(pa.parquet.write_table, TABLE), pd.read_parquet),
    "Parquet of pandas": ("p.pq", written(lambda t, f: t.to_parquet(f), FRAME), pd.read_parquet),
    "Parquet with nulls": ("p.parquet", written(pa.parquet.write_table, SPLITS), pd.read_parquet),
    "Feather": ("p.feather", written(pa.feather.write_feather, TABLE), pd.read_feather),
    "Arrow stream": (
        "p.arrow",
        stream_of(TABLE),
        lambda path: pa.ipc.open_stream(path.read_bytes()).read_pandas(),
    ),
    "workbook": ("p.xlsx", BY_EXCEL, lambda path: pd.read_excel(path, dtype=str)),
    "workbook, rows before": (
        "p.xlsx",
        workbook(FRAME, startrow=2, startcol=1),
        lambda path: pd.read_excel(path, dtype=str, skiprows=2, usecols="B:D"),
    ),
}
ON_PURPOSE: dict[str, tuple[str, bytes, list[tuple[str, ...]], str]] = {
    "TSV": (
        "p.tsv",
        b'sentence1\tsentence2\n"a\tb"\nc ""d""\te\n',
        [('"a', 'b"'), ('c ""d""', "e")],
        "quotes in GLUE's TSV files belong to the text",
    ),
    "spaces in TSV": (
        "p.tsv",
        b"sentence1\tsentence2\n a\t b\n",
        [(" a", " b")],
        "a TSV file without quotes has nothing but text between tabs",
    ),
    "separator line": (
        "p.csv",
        b"sep=;\nsentence1;sentence2\na;b\n",
        [("a", "b")],
        "Excel takes the first line for the separator, pandas for a name",
    ),
    "separator line in quotes": (
        "p.csv",
        b'"sep=,"\r\nsentence1,sentence2\r\na,b\r\n',
        [("a", "b")],
        "PowerShell writes it so",
    ),
    "separator line with a bar": (
        "p.csv",
        b"sep=|\nsentence1|sentence2\na, x|b\n",
        [("a, x", "b")],
        "any mark may be the separator, if the file says so",
    ),
    "a line of data first": (
        "p.csv",
        b"The lamp is on the table.,There is a lamp.\nA man came.,B\n",
        [("The lamp is on the table.", "There is a lamp."), ("A man came.", "B")],
        "what looks like a sentence is no name, which a note says",
    ),
    "Windows-1252": (
        "p.csv",
        "sentence1,sentence2\nGröße,b\n".encode("cp1252"),
        [("Größe", "b")],
        "spreadsheets save CSV so, which a note says",
    ),
}


def texts_in(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """The sentences of a frame's rows; rows without one are left out, as bad records are."""
    known = [
        ["premise", "hypothesis"],
        ["question", "sentence"],
        ["text"],
    ]
    names = next(names for names in known if set(names) <= set(frame.columns))
    rows = frame[names].itertuples(index=False, name=None)
    return [row for row in rows if not any(cell is None or cell != cell for cell in row)]


@pytest.mark.parametrize("kind", FILES)
def test_texts_are_those_of_the_owners(make: Make, kind: str) -> None:
    name, content, read = FILES[kind]
    path = make(name, content)
    good, bad = skipping(path)
    frame = read(Path(path))
    expected = texts_in(frame)
    assert [record.pair.texts for record in good] == expected
    assert len(expected) >= 1 and len(bad) == len(frame) - len(expected)


@pytest.mark.parametrize("kind", ON_PURPOSE)
def test_read_otherwise_on_purpose(make: Make, kind: str) -> None:
    name, content, expected, reason = ON_PURPOSE[kind]
    assert reason
    assert [record.pair.texts for record in read_pairs([make(name, content)])] == expected


def test_there_are_many_files() -> None:
    assert len(FILES) >= 30


def pairs_with(path: str, columns: Sequence[str] | None = None) -> list[tuple[str, ...]]:
    reading = FileReading(columns=None if columns is None else tuple(columns))
    return [record.pair.texts for record in read_pairs([path], reading)]


class TestAmbiguousJson:
    BOTH = '{"text": {"text": "a"}, "sentence": {"text": "b"}}'

    def test_columns_and_rows_that_cannot_be_told_apart(self, make: Make) -> None:
        with pytest.raises(PairsError, match="columns to read are among the names of its objects"):
            pairs_with(make("p.json", self.BOTH))

    def test_named_columns_tell(self, make: Make) -> None:
        document = '{"1": {"x": "a", "y": "b"}, "2": {"x": "c", "y": "d"}}'
        path = make("p.json", document)
        assert pairs_with(path, ["x", "y"]) == [("a", "b"), ("c", "d")]
        assert pairs_with(path, ["x"]) == [("a",), ("c",)]
        with pytest.raises(PairsError, match="columns to read are among"):
            pairs_with(path, ["1", "2"])

    def test_path_makes_it_one_record(self, make: Make) -> None:
        path = make("p.json", '{"translation": {"en": "a", "de": "b"}}')
        assert pairs_with(path, ["translation.en", "translation.de"]) == [("a", "b")]

    def test_unknown_names_are_refused(self, make: Make) -> None:
        path = make("p.json", '{"1": {"x": "a"}, "2": {"x": "c"}}')
        with pytest.raises(
            PairsError, match="its objects are '1', '2', what is in them is 'x', and none is"
        ):
            pairs_with(path)


class TestKeysThatVary:
    def test_later_records_may_have_columns_that_early_ones_lack(self, make: Make) -> None:
        lines = ['{"sentence": "s"}'] * 3 + ['{"question": "q", "sentence": "s"}'] * 2
        good, bad = skipping(make("p.jsonl", "\n".join(lines)))
        assert [record.pair.texts for record in good] == [("q", "s")] * 2
        assert bad == [f"p.jsonl:{line}: sentence A is missing" for line in (1, 2, 3)]

    def test_other_columns_far_behind_are_refused(self, make: Make) -> None:
        lines = ['{"sentence": "s"}'] * 1000 + ['{"question": "q", "sentence": "s"}']
        good, bad = skipping_all(make("p.jsonl", "\n".join(lines)))
        assert len(good) == 1000
        assert bad == ["it has 'question', 'sentence', which the first 1,000 records lack"]


def skipping_all(path: str) -> tuple[list[tuple[str, ...]], list[str]]:
    bad: list[Exception] = []
    good = [record.pair.texts for record in read_pairs([path], on_bad=bad.append)]
    return good, [str(error).partition(": ")[2].partition(";")[0] for error in bad]


class TestSavedDatasets:
    """Directories that `Dataset.save_to_disk` writes: Arrow streams beside JSON about them."""

    def save(self, directory: Path, *parts: pa.Table, **state: Any) -> None:
        directory.mkdir(parents=True)
        names = [f"data-{n:05}-of-{len(parts):05}.arrow" for n in range(len(parts))]
        for name, table in zip(names, parts, strict=True):
            (directory / name).write_bytes(stream_of(table))
        files = [{"filename": name} for name in names]
        about = {"_data_files": files, "_fingerprint": "0", "_split": "train", **state}
        (directory / "state.json").write_text(json.dumps(about))
        (directory / "dataset_info.json").write_text('{"features": {}}')

    def test_rows_are_those_of_its_files_in_order(self, tmp_path: Path) -> None:
        self.save(tmp_path / "saved", TABLE.slice(0, 2), TABLE.slice(2))
        expected = texts_in(FRAME)
        assert pairs_with(str(tmp_path / "saved")) == expected
        assert pairs_with(str(tmp_path)) == expected

    def test_order_is_that_of_its_state(self, tmp_path: Path) -> None:
        state = [{"filename": f"data-0000{n}-of-00002.arrow"} for n in (1, 0)]
        self.save(tmp_path / "saved", TABLE.slice(0, 2), TABLE.slice(2), _data_files=state)
        expected = texts_in(FRAME)
        assert pairs_with(str(tmp_path / "saved")) == expected[2:] + expected[:2]

    def test_splits_are_named(self, tmp_path: Path) -> None:
        for split in ("train", "test"):
            self.save(tmp_path / "all" / split, TABLE)
        (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        with pytest.raises(PairsError, match="holds the splits train, test; name one of them"):
            pairs_with(str(tmp_path / "all"))
        assert len(pairs_with(str(tmp_path / "all" / "test"))) == 4

    def test_rows_chosen_by_an_index_are_refused(self, tmp_path: Path) -> None:
        self.save(tmp_path / "saved", TABLE, _indices_files=[{"filename": "indices.arrow"}])
        with pytest.raises(PairsError, match="names no files that can be read in order"):
            pairs_with(str(tmp_path / "saved"))


class TestNamesOfClasses:
    NAMES = ("entailment", "neutral", "contradiction")

    def table(self) -> pa.Table:
        about = {"label": {"names": self.NAMES, "_type": "ClassLabel"}}
        metadata = {"huggingface": json.dumps({"info": {"features": about}})}
        table = pa.table({"premise": ["a"] * 3, "hypothesis": ["b"] * 3, "label": [2, 0, -1]})
        return table.replace_schema_metadata(metadata)

    @pytest.mark.parametrize("name", ["p.parquet", "p.arrow"])
    def test_labels_have_names_and_numbers(self, make: Make, name: str) -> None:
        is_parquet = name == "p.parquet"
        table = self.table()
        content = written(pa.parquet.write_table, table) if is_parquet else stream_of(table)
        records = list(read_pairs([make(name, content)], FileReading(labelled=True)))
        labels = [(record.label, record.class_number) for record in records]
        assert labels == [("contradiction", 2), ("entailment", 0), ("-1", None)]


class TestWorkbooks:
    def book(self, rows: dict[str, object]) -> bytes:
        import openpyxl

        made = openpyxl.Workbook()
        for cell, value in {"A1": "premise", "B1": "hypothesis", "A2": "a", "B2": "b"}.items():
            made.active[cell] = value
        for cell, value in rows.items():
            made.active[cell] = value
        file = io.BytesIO()
        made.save(file)
        return file.getvalue()

    @pytest.mark.parametrize("row", [3, 4])
    def test_formulas_without_values_are_bad_records(self, make: Make, row: int) -> None:
        cells = {f"A{row}": '=CONCATENATE("x","y")', f"B{row}": "=A2", "A5": "c", "B5": "d"}
        good, bad = skipping(make("p.xlsx", self.book(cells)))
        assert [record.place.row for record in good] == [1, 4]
        assert bad == [f"p.xlsx: row {row}: sentence A is missing"]

    def test_formulas_behind_the_last_value_are_bad_records(self, make: Make) -> None:
        good, bad = skipping(make("p.xlsx", self.book({"A3": "=A2", "B3": "=B2"})))
        assert len(good) == 1 and bad == ["p.xlsx: row 3: sentence A is missing"]

    def test_stray_cell_in_the_last_row(self, make: Make) -> None:
        good, bad = skipping(make("p.xlsx", self.book({"A1048576": " "})))
        assert len(good) == 1 and len(bad) <= 1

    def test_stray_cell_in_the_last_column_is_refused(self, make: Make) -> None:
        path = make("p.xlsx", self.book({"XFD1048576": "x"}))
        with pytest.raises(PairsError, match="spans 1,048,576 rows and 16,384 columns"):
            pairs_with(path)
