"""Files as people have them are read right, or what is doubtful about them is told.

They are miniatures of data sets, with the quirks of the originals; every sentence is our own.
"""

import io
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pytest
from openpyxl import Workbook
from support.pair_files import Make, parquet

from attnscan.errors import PairsError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading
from attnscan.inputs.sentence import Pair


@dataclass(frozen=True)
class DataSet:
    """A file, how it is read, and what it holds."""

    name: str
    content: bytes
    pairs: list[tuple[str, ...]]
    columns: tuple[str, ...] | None = None
    quoting: str = "auto"
    notes: tuple[str, ...] = ()
    """What is told of it, in part."""
    bad: tuple[str, ...] = ()
    """What is said of its bad records, in part."""
    rows: tuple[int, ...] = ()
    """Of the pairs, where they are not the first ones."""


def text(*lines: str, end: str = "\n", start: str = "") -> bytes:
    """The lines of a file, ⇥ for a tab."""
    return (start + "".join(line.replace("⇥", "\t") + end for line in lines)).encode()


def arrow_stream() -> bytes:
    table = pa.table({"premise": ["a b", "c d"], "hypothesis": ["e", "f"], "label": [0, 2]})
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return file.getvalue()


def workbook() -> bytes:
    """Behind a hidden sheet one with a title, blank rows, and numbers beside the sentences."""
    book = Workbook()
    file = io.BytesIO()
    for row in (["No", "Sentence A", "Sentence B"], [1, "=1+1 is two", "é"], [], [2, "c", "-d"]):
        book.active.append(row)
    book.active["B2"].data_type = "s"
    book.create_sheet("notes", 0).sheet_state = "hidden"
    book.save(file)
    return file.getvalue()


PARSE = "( ( The cat ) ( sat . ) )"
TREE = "(ROOT (S (NP (DT The) (NN cat)) (VP (VBD sat)) (. .)))"
PARSES = f"{PARSE}⇥{PARSE}⇥{TREE}⇥{TREE}"
TRANSLATED = [("The cat sat.", "Die Katze saß."), ("It rains.", "Es regnet.")]
TRIPLET = {"anchor": "The cat sat.", "positive": "A cat was sitting.", "negative": "No."}
PANDAS = [("plain", "cells"), ('He said "no".', "fine"), ("a\tb", "two\nlines")]
DATA_SETS = {
    "MNLI": DataSet(  # GLUE's: twelve columns, quotes that are text, some left open
        "train.tsv",
        text(
            "index⇥promptID⇥pairID⇥genre⇥sentence1_binary_parse⇥sentence2_binary_parse⇥sentence1_parse⇥sentence2_parse"
            "⇥sentence1⇥sentence2⇥label1⇥gold_label",
            f'0⇥0c⇥0n⇥fiction⇥{PARSES}⇥The "cat" sat on the mat.⇥A cat sat.⇥e⇥e',
            f'1⇥1c⇥1n⇥fiction⇥{PARSES}⇥"We never said so, he told me⇥Nobody said it.⇥e⇥e',
            f'2⇥2c⇥2n⇥fiction⇥{PARSES}⇥yeah i know and and uh⇥"yeah"⇥e⇥e',
        ),
        [
            ('The "cat" sat on the mat.', "A cat sat."),
            ('"We never said so, he told me', "Nobody said it."),
            ("yeah i know and and uh", '"yeah"'),
        ],
    ),
    "QQP": DataSet(  # GLUE's: some rows are broken by a line end within a question
        "train.tsv",
        text(
            "id⇥qid1⇥qid2⇥question1⇥question2⇥is_duplicate",
            "133273⇥213221⇥213222⇥How do I sleep well?⇥How can I sleep better?⇥1",
            "402555⇥536040⇥536041⇥How do I close a question that⇥",
            "was cut in two?⇥⇥0",
            '360472⇥364011⇥490273⇥What is "ROI"?⇥What does ROI mean?⇥0',
        ),
        [
            ("How do I sleep well?", "How can I sleep better?"),
            ('What is "ROI"?', "What does ROI mean?"),
        ],
        bad=(
            "train.tsv:3: its number of fields is 5, where 6 are expected",
            "train.tsv:4: its number of fields is 3",
        ),
        rows=(1, 4),
    ),
    "CoLA": DataSet(  # no line of names
        "train.tsv",
        text(
            "gj04⇥0⇥⇥Our friends won't buy it.",
            "gj04⇥1⇥⇥The more the merrier.",
            "gj04⇥0⇥*⇥They drank the pub.",
        ),
        [("Our friends won't buy it.",), ("The more the merrier.",), ("They drank the pub.",)],
        columns=("4",),
        notes=("train.tsv: its first line looks like data",),
    ),
    "MRPC": DataSet(  # Microsoft's own: a mark at its start, DOS line ends, quotes left open
        "msr_paraphrase_train.txt",
        text(
            "Quality⇥#1 ID⇥#2 ID⇥#1 String⇥#2 String",
            '1⇥702876⇥702977⇥Amrozi accused "the witness".'
            '⇥Referring to him as "the witness", he did.',
            '1⇥702877⇥702978⇥"The report was late, he said.⇥He said that the report was late.',
            end="\r\n",
            start="\ufeff",
        ),
        [
            ('Amrozi accused "the witness".', 'Referring to him as "the witness", he did.'),
            ('"The report was late, he said.', "He said that the report was late."),
        ],
    ),
    "STS-B": DataSet(  # called .csv: tabs, no names, quotes that are text, seven to nine cells
        "sts-train.csv",
        text(
            "main-captions⇥MSRvid⇥2012test⇥0001⇥5.000⇥A plane rises, slowly.⇥A jet rises.",
            'main-captions⇥MSRvid⇥2012test⇥0001⇥5.000⇥"A man" plays.⇥Some man plays⇥http://a.example/1⇥http://a.example/2',
            "main-captions⇥MSRvid⇥2012test⇥0001⇥5.000⇥One.⇥Two.⇥http://a.example/1",
        ),
        [
            ("A plane rises, slowly.", "A jet rises."),
            ('"A man" plays.', "Some man plays"),
            ("One.", "Two."),
        ],
        columns=("6", "7"),
        quoting="none",
        notes=("separated by tabs", "its first line looks like data"),
    ),
    "Parquet, nested": DataSet(
        "test-00000-of-00001.parquet",
        parquet({"translation": [{"de": de, "en": en} for en, de in TRANSLATED]}),
        TRANSLATED,
        columns=("translation.en", "translation.de"),
    ),
    "Parquet, lists": DataSet(
        "test-00000-of-00001.parquet",
        parquet({"set": [list(texts) for texts in TRANSLATED]}),
        TRANSLATED,
        columns=("set.1", "set.2"),
    ),
    "Parquet, triplets": DataSet(  # the names of sentence-transformers, in large strings
        "dev-00000-of-00001.parquet",
        parquet({name: pa.array([text], pa.large_string()) for name, text in TRIPLET.items()}),
        [("The cat sat.", "A cat was sitting.")],
    ),
    "Arrow stream": DataSet(
        "snli-test.arrow", arrow_stream(), [("a b", "e"), ("c d", "f")]
    ),  # the cache of `datasets`
    "pandas TSV": DataSet(  # quotes around cells with quotes, tabs or line ends, and doubled within
        "mine.tsv",
        pd.DataFrame(PANDAS, columns=["sentence1", "sentence2"]).to_csv(sep="\t").encode(),
        PANDAS,
        notes=("mine.tsv: its cells are quoted, and are read so",),
    ),
    "Excel": DataSet(
        "mine.xlsx",
        workbook(),
        [("=1+1 is two", "é"), ("c", "-d")],
        notes=("mine.xlsx: its first visible sheet is read, 'Sheet'",),
        rows=(1, 3),
    ),
    "German CSV": DataSet(  # what a German spreadsheet saves
        "paare.csv",
        text(
            "Nr;text1;text2",
            '1;"eins; zwei";"a ""b"""',
            "2;drei, vier;c",
            end="\r\n",
            start="\ufeff",
        ),
        [("eins; zwei", 'a "b"'), ("drei, vier", "c")],
        notes=("separated by semicolons",),
    ),
}


@pytest.mark.parametrize("data_set", DATA_SETS.values(), ids=list(DATA_SETS))
def test_a_data_set_is_read(data_set: DataSet, make: Make) -> None:
    path = make(data_set.name, data_set.content)
    bad: list[PairsError] = []
    notes: list[str] = []
    reading = FileReading(data_set.columns, quoting=data_set.quoting)
    records = list(read_pairs([path], reading, bad.append, notes.append))
    assert [record.pair for record in records] == [Pair(*texts) for texts in data_set.pairs]
    assert tuple(record.place.row for record in records) == (
        data_set.rows or tuple(range(1, len(records) + 1))
    )
    assert {record.place.file for record in records} == {path}
    assert len(notes) == len(data_set.notes) and len(bad) == len(data_set.bad)
    assert all(
        part in note and note.startswith(path)
        for part, note in zip(data_set.notes, notes, strict=True)
    )
    for part, error in zip(data_set.bad, bad, strict=True):
        assert part in error.what and "``skip_bad``" in error.remedy
