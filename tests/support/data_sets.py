"""Miniatures of data sets that people score heads on, with the quirks of the originals; every sentence is our own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook

from attnscan.inputs.read import FileReading
from attnscan.inputs.sentence import Pair

_PARSE = "( ( The cat ) ( sat . ) )"
_TREE = "(ROOT (S (NP (DT The) (NN cat)) (VP (VBD sat)) (. .)))"


@dataclass(frozen=True)
class DataSet:
    """A file, how it is read, and what it holds."""

    name: str
    content: bytes
    pairs: tuple[Pair, ...]
    reading: FileReading = FileReading()
    notes: tuple[str, ...] = ()
    """What is told of it, in part."""
    bad: tuple[str, ...] = ()
    """What is said of its bad records, in part."""
    rows: tuple[int, ...] = field(default=())
    """Of the pairs, where they are not the first ones."""


def _lines(*lines: str, end: str = "\n", start: str = "") -> bytes:
    return (start + "".join(line + end for line in lines)).encode()


def _tabs(*cells: object) -> str:
    return "\t".join(map(str, cells))


def mnli() -> DataSet:
    """GLUE's train.tsv: twelve columns, quotes that are text, some left open."""
    header = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
    rows = [
        ('The "cat" sat on the mat.', "A cat sat.", "entailment"),
        ('"We never said so, he told me', "Nobody said it.", "neutral"),
        ("yeah i know and and uh", '"yeah"', "contradiction"),
    ]
    return DataSet(
        "MNLI/train.tsv",
        _lines(
            _tabs(*header.split(), "sentence1", "sentence2", "label1", "gold_label"),
            *(
                _tabs(n, f"{n}11c", f"{n}11n", "fiction", _PARSE, _PARSE, _TREE, _TREE, a, b, label, label)
                for n, (a, b, label) in enumerate(rows)
            ),
        ),
        tuple(Pair(a, b) for a, b, _ in rows),
    )


def qqp() -> DataSet:
    """GLUE's train.tsv: some rows are broken by a line end within a question."""
    good = [("How do I sleep well?", "How can I sleep better?"), ('What is "ROI"?', "What does ROI mean?")]
    return DataSet(
        "QQP/train.tsv",
        _lines(
            _tabs("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
            _tabs(133273, 213221, 213222, *good[0], 1),
            _tabs(402555, 536040, 536041, "How do I close a question that", ""),
            _tabs("was cut in two?", "", 0),
            _tabs(360472, 364011, 490273, *good[1], 0),
        ),
        tuple(Pair(*pair) for pair in good),
        bad=(
            "train.tsv:3: its number of fields is 5, where 6 are expected",
            "train.tsv:4: its number of fields is 3",
        ),
        rows=(1, 4),
    )


def cola(columns: str) -> DataSet:
    """Its files have no line of names."""
    texts = ["Our friends won't buy this analysis, let alone the next.", "The more the merrier.", "They drank the pub."]
    return DataSet(
        "CoLA/train.tsv",
        _lines(*(_tabs("gj04", n % 2, "*" if n == 2 else "", text) for n, text in enumerate(texts))),
        tuple(map(Pair, texts)),
        FileReading((columns,)),
        notes=("train.tsv: its first line looks like data",),
    )


def mrpc() -> DataSet:
    """Microsoft's own .txt: a mark at its start, tabs, DOS line ends, quotes left open."""
    pairs = (
        Pair('Amrozi accused his brother, whom he called "the witness".', 'Referring to him as "the witness", he did.'),
        Pair('"The report was late, he said.', "He said that the report was late."),
    )
    return DataSet(
        "msr_paraphrase_train.txt",
        _lines(
            _tabs("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
            *(_tabs(1, 702876 + n, 702977 + n, *pair.texts) for n, pair in enumerate(pairs)),
            end="\r\n",
            start="\ufeff",
        ),
        pairs,
    )


def sts() -> DataSet:
    """The original, called .csv: tabs, no names, quotes that are text, and rows of seven to nine cells."""
    pairs = (
        Pair("A plane rises, slowly.", "A jet rises."),
        Pair('"A man" plays.', "Some man plays"),
        Pair("One.", "Two."),
    )
    start = ("main-captions", "MSRvid", "2012test")
    return DataSet(
        "sts-train.csv",
        _lines(
            _tabs(*start, "0001", "5.000", *pairs[0].texts),
            _tabs(*start, "0002", "3.800", *pairs[1].texts, "http://a.example/1", "http://a.example/2"),
            _tabs(*start, "0003", "0.000", *pairs[2].texts, "http://a.example/1"),
        ),
        pairs,
        FileReading(("6", "7"), quoting="none"),
        notes=("separated by tabs", "its first line looks like data"),
    )


def snli_lines() -> DataSet:
    """The .jsonl."""
    record = {"annotator_labels": ["neutral"], "captionID": "47#4", "gold_label": "neutral", "pairID": "47#4r1n"}
    pairs = (Pair("Two women hug.", "They sleep."), Pair('The "dog" é runs.', "It is late."))
    return DataSet(
        "snli_1.0_dev.jsonl",
        _lines(
            *(
                json.dumps(
                    {**record, "sentence1": a, "sentence1_parse": _TREE, "sentence2": b, "sentence2_parse": _TREE}
                )
                for a, b in (pair.texts for pair in pairs)
            )
        ),
        pairs,
    )


def _parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


_TRANSLATIONS = (Pair("The cat sat.", "Die Katze saß."), Pair("It rains.", "Es regnet."))


def translations() -> DataSet:
    """A Parquet file of the hub with its languages in one column."""
    rows = [{"de": pair.b, "en": pair.a} for pair in _TRANSLATIONS]
    return DataSet(
        "wmt/test-00000-of-00001.parquet",
        _parquet(pa.table({"translation": rows})),
        _TRANSLATIONS,
        FileReading(("translation.en", "translation.de")),
    )


def sets() -> DataSet:
    """A Parquet file of the hub with both sentences in a list."""
    return DataSet(
        "pairs/train-00000-of-00001.parquet",
        _parquet(pa.table({"set": pa.array([list(pair.texts) for pair in _TRANSLATIONS], pa.list_(pa.string()))})),
        _TRANSLATIONS,
        FileReading(("set.1", "set.2")),
    )


def triplets() -> DataSet:
    """A Parquet file of the hub with the names of sentence-transformers, in large strings."""
    columns = {"anchor": ["The cat sat."], "positive": ["A cat was sitting."], "negative": ["No cat."]}
    return DataSet(
        "all-nli/dev-00000-of-00001.parquet",
        _parquet(pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns.items()})),
        (Pair("The cat sat.", "A cat was sitting."),),
    )


def cached() -> DataSet:
    """What `datasets` keeps in its cache: an Arrow stream, its labels numbers."""
    table = pa.table({"premise": ["a b", "c d"], "hypothesis": ["e", "f"], "label": [0, 2]})
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return DataSet("snli-test.arrow", file.getvalue(), (Pair("a b", "e"), Pair("c d", "f")))


def from_pandas() -> DataSet:
    """What pandas writes with tabs: quotes around cells with quotes, tabs or line ends, and doubled within."""
    return DataSet(
        "mine.tsv",
        _lines(
            _tabs("", "sentence1", "sentence2"),
            _tabs(0, "plain", "cells"),
            _tabs(1, '"He said ""no""."', "fine"),
            _tabs(2, '"a\tb"', '"two\nlines"'),
        ),
        (Pair("plain", "cells"), Pair('He said "no".', "fine"), Pair("a\tb", "two\nlines")),
        notes=("mine.tsv: its cells are quoted, and are read so",),
    )


def spreadsheet() -> DataSet:
    """A sheet with a title that spreadsheets give, blank rows, and numbers beside the sentences."""
    book = Workbook()
    for row in (["No", "Sentence A", "Sentence B"], [1, "=1+1 is two", "é"], [], [2, "c", "-d"]):
        book.active.append(row)
    book.active["B2"].data_type = "s"
    book.create_sheet("notes")
    file = io.BytesIO()
    book.save(file)
    return DataSet(
        "mine.xlsx",
        file.getvalue(),
        (Pair("=1+1 is two", "é"), Pair("c", "-d")),
        notes=("mine.xlsx: its first visible sheet is read, 'Sheet'",),
        rows=(1, 3),
    )


def german() -> DataSet:
    """What a German spreadsheet saves as CSV."""
    return DataSet(
        "paare.csv",
        _lines("Nr;text1;text2", '1;"eins; zwei";"a ""b"""', "2;drei, vier;c", end="\r\n", start="\ufeff"),
        (Pair("eins; zwei", 'a "b"'), Pair("drei, vier", "c")),
        notes=("separated by semicolons",),
    )


def document() -> DataSet:
    """A JSON document, over several lines."""
    rows = [{"context": "How are you?", "response": "Fine."}, {"response": "No.", "context": 'A "b".'}]
    pairs = (Pair("How are you?", "Fine."), Pair('A "b".', "No."))
    return DataSet("chat.json", json.dumps(rows, indent=2).encode(), pairs)


def lines_called_json() -> DataSet:
    """JSON lines under the name of a document, as `datasets` and pandas write them."""
    return DataSet("train.json", _lines('{"text": "a b"}', '{"text": "c d"}'), (Pair("a b"), Pair("c d")))


def columns_in_json() -> DataSet:
    """What `frame.to_json()` writes."""
    content = {"sentence1": {"0": "a b", "1": "c"}, "sentence2": {"0": "d", "1": "e f"}}
    return DataSet("frame.json", json.dumps(content).encode(), (Pair("a b", "d"), Pair("c", "e f")))


def within_json() -> DataSet:
    """Rows in the only list of an object."""
    content = {"version": "1.0", "data": [{"x": {"q": "a b", "p": ["c", "d"]}}]}
    return DataSet("rows.json", json.dumps(content).encode(), (Pair("a b", "d"),), FileReading(("x.q", "x.p.2")))


DATA_SETS: dict[str, Callable[[], DataSet]] = {
    "MNLI": mnli,
    "QQP": qqp,
    "CoLA": lambda: cola("4"),
    "MRPC": mrpc,
    "STS-B": sts,
    "SNLI .jsonl": snli_lines,
    "Parquet, nested": translations,
    "Parquet, lists": sets,
    "Parquet, triplets": triplets,
    "Arrow stream": cached,
    "pandas TSV": from_pandas,
    "Excel": spreadsheet,
    "German CSV": german,
    "JSON document": document,
    "JSON lines as .json": lines_called_json,
    "pandas JSON": columns_in_json,
    "rows within JSON": within_json,
}
