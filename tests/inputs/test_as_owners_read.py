"""Files of pairs hold the texts that pandas, pyarrow and `datasets` read in them.

What is read otherwise on purpose is in `ON_PURPOSE`, each with its reason.
"""

import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from support.pair_files import Make, skipping

from attnscan.errors import InputError, PairsError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading, objects_in
from attnscan.inputs.sentence import Record

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
    rows = frame[names].dropna().itertuples(index=False, name=None)
    return list(rows)


@pytest.mark.parametrize("kind", FILES)
def test_texts_are_those_of_the_owners(make: Make, kind: str) -> None:
    name, content, read = FILES[kind]
    path = make(name, content)
    good, bad = skipping(path)
    frame = read(Path(path))
    expected = texts_in(frame)
    assert [record.pair.texts for record in good] == expected
    assert len(expected) >= 1 and len(bad) == len(frame) - len(expected)


BUILDERS = {
    ".csv": datasets.Dataset.from_csv,
    ".json": datasets.Dataset.from_json,
    ".jsonl": datasets.Dataset.from_json,
    ".parquet": datasets.Dataset.from_parquet,
    ".pq": datasets.Dataset.from_parquet,
}
"""What reads a file in `datasets`, by its suffix."""
BY_DATASETS = (
    "plain",
    "all quoted",
    "Windows line ends",
    "mark of UTF-8",
    "blank lines",
    "line ends in cells",
    "one column",
    "more columns",
    "JSON, records",
    "JSON, indented",
    "JSON lines",
    "JSON lines in .json",
    "JSON lines, keys left out",
    "Parquet",
    "Parquet of pandas",
    "Parquet with nulls",
)


@pytest.mark.parametrize("kind", BY_DATASETS)
def test_texts_are_those_of_datasets(make: Make, tmp_path: Path, kind: str) -> None:
    name, content, _ = FILES[kind]
    path = make(name, content)
    build = BUILDERS[Path(name).suffix]
    data_set = build(path, cache_dir=str(tmp_path / "cache"))
    good, _ = skipping(path)
    assert [record.pair.texts for record in good] == texts_in(data_set.to_pandas())


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


NAMES_OF_CLASSES = ("entailment", "neutral", "contradiction")
FEATURES = datasets.Features(
    {
        "premise": datasets.Value("string"),
        "hypothesis": datasets.Value("string"),
        "label": datasets.ClassLabel(names=list(NAMES_OF_CLASSES)),
    }
)
ROWS = {
    "premise": [f"a {number}" for number in range(12)],
    "hypothesis": [f"b {number}" for number in range(12)],
    "label": [number % 4 - 1 for number in range(12)],  # -1 where it is withheld
}
DATA_SET = datasets.Dataset.from_dict(ROWS, features=FEATURES)
SAVED = {
    "one file": (DATA_SET, 1),
    "twelve files": (DATA_SET, 12),
    "rows in another order": (DATA_SET.shuffle(seed=1), 2),
    "some rows": (DATA_SET.select([7, 2, 5]), 1),
    "two data sets": (datasets.concatenate_datasets([DATA_SET, DATA_SET.select([0])]), 1),
}


def rows_of(data_set: datasets.Dataset) -> list[tuple[tuple[str, ...], str]]:
    """The texts and the name of the class of each row, as `datasets` has them."""
    names = data_set.features["label"].names
    rows = []
    for row in data_set:
        label = names[row["label"]] if row["label"] >= 0 else "-1"
        rows.append(((row["premise"], row["hypothesis"]), label))
    return rows


def labelled(records: Iterable[Record]) -> list[tuple[tuple[str, ...], str | None]]:
    return [(record.pair.texts, record.label) for record in records]


class TestRealDatasets:
    """What `datasets` itself wrote or holds."""

    @pytest.mark.parametrize("kind", SAVED)
    def test_saved_directory(self, tmp_path: Path, kind: str) -> None:
        data_set, files = SAVED[kind]
        path = str(tmp_path / "saved")
        data_set.save_to_disk(path, num_shards=files)
        expected = rows_of(datasets.load_from_disk(path))
        assert labelled(read_pairs([path], FileReading(labelled=True))) == expected
        assert len(list(Path(path).glob("*.arrow"))) == files

    def test_saved_splits(self, tmp_path: Path) -> None:
        splits = datasets.DatasetDict(train=DATA_SET, test=DATA_SET.select([3, 1]))
        path = str(tmp_path / "saved")
        splits.save_to_disk(path)
        with pytest.raises(PairsError, match="holds the splits train, test; name one of them"):
            read_pairs([path])
        pairs = read_pairs([f"{path}/test"], FileReading(labelled=True))
        assert labelled(pairs) == rows_of(splits["test"])

    def test_single_saved_split(self, tmp_path: Path) -> None:
        path = str(tmp_path / "saved")
        datasets.DatasetDict(train=DATA_SET).save_to_disk(path)
        pairs = read_pairs([path], FileReading(labelled=True))
        assert labelled(pairs) == rows_of(DATA_SET)

    def test_saved_directory_without_rows(self, tmp_path: Path) -> None:
        path = str(tmp_path / "saved")
        DATA_SET.select([]).save_to_disk(path)
        with pytest.raises(PairsError, match="saved is a data set without rows"):
            read_pairs([path])

    @pytest.mark.parametrize("format", [None, "numpy", "torch", "pandas", "arrow"])
    def test_object_in_every_format(self, format: str | None) -> None:
        data_set = DATA_SET.with_format(format)
        pairs = objects_in(data_set, FileReading(labelled=True)).records()
        assert labelled(pairs) == rows_of(DATA_SET)
        assert data_set.format["type"] == format  # and the caller's is as it was

    def test_chosen_rows(self) -> None:
        chosen = DATA_SET.shuffle(seed=3).select(range(5))
        pairs = objects_in(chosen, FileReading(labelled=True)).records()
        assert labelled(pairs) == rows_of(chosen)

    def test_stream(self) -> None:
        stream = DATA_SET.to_iterable_dataset()
        pairs = objects_in(stream, FileReading(labelled=True)).records()
        assert labelled(pairs) == rows_of(DATA_SET)

    def test_stream_of_unknown_columns(self) -> None:
        rows = [{"premise": "a", "hypothesis": "b"}, {"premise": "c", "hypothesis": "d"}]
        stream = datasets.IterableDataset.from_generator(lambda: iter(rows))
        assert stream.column_names is None
        assert [record.pair.texts for record in objects_in(stream).records()] == [
            ("a", "b"),
            ("c", "d"),
        ]

    def test_arrow_table_of_one(self) -> None:
        pairs = objects_in(DATA_SET.data.table, FileReading(labelled=True)).records()
        assert labelled(pairs) == rows_of(DATA_SET)

    def test_column_of_texts(self) -> None:
        records = objects_in(DATA_SET["premise"]).records()
        assert [record.pair.texts for record in records] == [(text,) for text in ROWS["premise"]]

    @pytest.mark.parametrize("streams", [False, True])
    def test_splits_are_refused(self, streams: bool) -> None:
        train: Any = DATA_SET.to_iterable_dataset() if streams else DATA_SET
        kind: Any = datasets.IterableDatasetDict if streams else datasets.DatasetDict
        with pytest.raises(InputError, match=r"holds splits; choose one: \['train'\]"):
            objects_in(kind({"train": train, "test": train}))


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
    def table(self) -> pa.Table:
        about = {"label": {"names": NAMES_OF_CLASSES, "_type": "ClassLabel"}}
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
