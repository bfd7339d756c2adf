"""Miniatures of data sets that people score heads on, with the quirks of the originals; every sentence is our own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pandas as pd
import pyarrow as pa
from openpyxl import Workbook

from attnscan.inputs.records import FileReading
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
    rows: tuple[int, ...] = ()
    """Of the pairs, where they are not the first ones."""


def _lines(*lines: str, end: str = "\n", start: str = "") -> bytes:
    return (start + "".join(line + end for line in lines)).encode()


def _tabs(*cells: object) -> str:
    return "\t".join(map(str, cells))


def mnli() -> DataSet:
    """GLUE's train.tsv: twelve columns, quotes that are text, some left open."""
    header = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
    pairs = (
        Pair('The "cat" sat on the mat.', "A cat sat."),
        Pair('"We never said so, he told me', "Nobody said it."),
        Pair("yeah i know and and uh", '"yeah"'),
    )
    parses = (_PARSE, _PARSE, _TREE, _TREE)
    rows = [_tabs(n, f"{n}c", f"{n}n", "fiction", *parses, *pair.texts, "e", "e") for n, pair in enumerate(pairs)]
    names = _tabs(*header.split(), "sentence1", "sentence2", "label1", "gold_label")
    return DataSet("MNLI/train.tsv", _lines(names, *rows), pairs)


def qqp() -> DataSet:
    """GLUE's train.tsv: some rows are broken by a line end within a question."""
    good = Pair("How do I sleep well?", "How can I sleep better?"), Pair('What is "ROI"?', "What does ROI mean?")
    content = _lines(
        _tabs("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        _tabs(133273, 213221, 213222, *good[0].texts, 1),
        _tabs(402555, 536040, 536041, "How do I close a question that", ""),
        _tabs("was cut in two?", "", 0),
        _tabs(360472, 364011, 490273, *good[1].texts, 0),
    )
    bad = ("train.tsv:3: its number of fields is 5, where 6 are expected", "train.tsv:4: its number of fields is 3")
    return DataSet("QQP/train.tsv", content, good, bad=bad, rows=(1, 4))


def cola() -> DataSet:
    """Its files have no line of names."""
    texts = ["Our friends won't buy this analysis, let alone the next.", "The more the merrier.", "They drank the pub."]
    content = _lines(*(_tabs("gj04", n % 2, "*" if n == 2 else "", text) for n, text in enumerate(texts)))
    notes = ("train.tsv: its first line looks like data",)
    return DataSet("CoLA/train.tsv", content, tuple(map(Pair, texts)), FileReading(("4",)), notes)


def mrpc() -> DataSet:
    """Microsoft's own .txt: a mark at its start, tabs, DOS line ends, quotes left open."""
    pairs = (
        Pair('Amrozi accused his brother, whom he called "the witness".', 'Referring to him as "the witness", he did.'),
        Pair('"The report was late, he said.', "He said that the report was late."),
    )
    names = _tabs("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    rows = [_tabs(1, 702876 + n, 702977 + n, *pair.texts) for n, pair in enumerate(pairs)]
    return DataSet("msr_paraphrase_train.txt", _lines(names, *rows, end="\r\n", start="\ufeff"), pairs)


def sts() -> DataSet:
    """The original, called .csv: tabs, no names, quotes that are text, and rows of seven to nine cells."""
    pairs = (
        Pair("A plane rises, slowly.", "A jet rises."),
        Pair('"A man" plays.', "Some man plays"),
        Pair("One.", "Two."),
    )
    start, more = ("main-captions", "MSRvid", "2012test", "0001", "5.000"), ("http://a.example/1", "http://a.example/2")
    content = _lines(*(_tabs(*start, *pair.texts, *more[:cells]) for pair, cells in zip(pairs, (0, 2, 1), strict=True)))
    notes = ("separated by tabs", "its first line looks like data")
    return DataSet("sts-train.csv", content, pairs, FileReading(("6", "7"), quoting="none"), notes)


def snli() -> DataSet:
    """The .jsonl."""
    record = {"annotator_labels": ["neutral"], "captionID": "47#4", "gold_label": "neutral", "sentence1_parse": _TREE}
    pairs = (Pair("Two women hug.", "They sleep."), Pair('The "dog" é runs.', "It is late."))
    rows = [json.dumps({**record, "sentence1": pair.a, "sentence2": pair.b}) for pair in pairs]
    return DataSet("snli_1.0_dev.jsonl", _lines(*rows), pairs)


_TRANSLATIONS = (Pair("The cat sat.", "Die Katze saß."), Pair("It rains.", "Es regnet."))


def parquet(column: str, values: list[object], *read: str) -> DataSet:
    """A file of the hub with both sentences in one column."""
    content = pd.DataFrame({column: values}).to_parquet()
    return DataSet(f"{column}/test-00000-of-00001.parquet", content, _TRANSLATIONS, FileReading(read))


def triplets() -> DataSet:
    """A Parquet file of the hub with the names of sentence-transformers, in large strings."""
    columns = {"anchor": ["The cat sat."], "positive": ["A cat was sitting."], "negative": ["No cat."]}
    content = pd.DataFrame(columns, dtype="large_string[pyarrow]").to_parquet()
    return DataSet("all-nli/dev-00000-of-00001.parquet", content, (Pair("The cat sat.", "A cat was sitting."),))


def cached() -> DataSet:
    """What `datasets` keeps in its cache: an Arrow stream, its labels numbers."""
    table = pa.table({"premise": ["a b", "c d"], "hypothesis": ["e", "f"], "label": [0, 2]})
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return DataSet("snli-test.arrow", file.getvalue(), (Pair("a b", "e"), Pair("c d", "f")))


def from_pandas() -> DataSet:
    """What pandas writes with tabs: quotes around cells with quotes, tabs or line ends, and doubled within."""
    pairs = Pair("plain", "cells"), Pair('He said "no".', "fine"), Pair("a\tb", "two\nlines")
    frame = pd.DataFrame([pair.texts for pair in pairs], columns=["sentence1", "sentence2"])
    notes = ("mine.tsv: its cells are quoted, and are read so",)
    return DataSet("mine.tsv", frame.to_csv(sep="\t").encode(), pairs, notes=notes)


def spreadsheet() -> DataSet:
    """A sheet with a title that spreadsheets give, blank rows, and numbers beside the sentences."""
    book, file = Workbook(), io.BytesIO()
    for row in (["No", "Sentence A", "Sentence B"], [1, "=1+1 is two", "é"], [], [2, "c", "-d"]):
        book.active.append(row)
    book.active["B2"].data_type = "s"
    book.create_sheet("notes")
    book.save(file)
    notes = ("mine.xlsx: its first visible sheet is read, 'Sheet'",)
    pairs = (Pair("=1+1 is two", "é"), Pair("c", "-d"))
    return DataSet("mine.xlsx", file.getvalue(), pairs, notes=notes, rows=(1, 3))


def german() -> DataSet:
    """What a German spreadsheet saves as CSV."""
    content = _lines("Nr;text1;text2", '1;"eins; zwei";"a ""b"""', "2;drei, vier;c", end="\r\n", start="\ufeff")
    pairs = (Pair("eins; zwei", 'a "b"'), Pair("drei, vier", "c"))
    return DataSet("paare.csv", content, pairs, notes=("separated by semicolons",))


def document(content: object, *read: str) -> DataSet:
    """A JSON document over several lines: rows, columns as `frame.to_json()` writes them, or the only list within."""
    pairs = (Pair("How are you?", "Fine."), Pair('A "b".', "No."))
    return DataSet("chat.json", json.dumps(content, indent=2).encode(), pairs, FileReading(read or None))


def lines_called_json() -> DataSet:
    """JSON lines under the name of a document, as `datasets` and pandas write them."""
    return DataSet("train.json", _lines('{"text": "a b"}', '{"text": "c d"}'), (Pair("a b"), Pair("c d")))


_ROWS = [{"context": "How are you?", "response": "Fine."}, {"response": "No.", "context": 'A "b".'}]
_COLUMNS = {"context": {"0": "How are you?", "1": 'A "b".'}, "response": {"0": "Fine.", "1": "No."}}
_WITHIN = {"version": "1.0", "data": [{"x": {"q": row["context"], "p": ["", row["response"]]}} for row in _ROWS]}
DATA_SETS: dict[str, Callable[[], DataSet]] = {
    "MNLI": mnli,
    "QQP": qqp,
    "CoLA": cola,
    "MRPC": mrpc,
    "STS-B": sts,
    "SNLI .jsonl": snli,
    "Parquet, nested": partial(
        parquet, "translation", [{"de": p.b, "en": p.a} for p in _TRANSLATIONS], "translation.en", "translation.de"
    ),
    "Parquet, lists": partial(parquet, "set", [list(p.texts) for p in _TRANSLATIONS], "set.1", "set.2"),
    "Parquet, triplets": triplets,
    "Arrow stream": cached,
    "pandas TSV": from_pandas,
    "Excel": spreadsheet,
    "German CSV": german,
    "JSON document": partial(document, _ROWS),
    "pandas JSON": partial(document, _COLUMNS),
    "rows within JSON": partial(document, _WITHIN, "x.q", "x.p.2"),
    "JSON lines as .json": lines_called_json,
}
