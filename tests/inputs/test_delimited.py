"""CSV, TSV and text files come back as they were written, in every encoding; guesses are told."""

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.hypothesis_draws import draws
from support.pair_files import HEADER, LINES, Make, gzipped, pairs_in, parquet

from attnscan.errors import InputError, OptionError, PairsError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading, Quoting

Table = list[tuple[str, ...]]
READ_SO = "its cells are quoted, and are read so (--quoting none if the quotes are text)"


def as_csv(table: Table, **style: Any) -> bytes:
    file = io.StringIO()
    csv.writer(file, **style).writerows([("sentence_a", "sentence_b"), *table])
    return file.getvalue().encode()


def as_tsv(table: Table, end: str = "\n") -> bytes:
    return end.join("\t".join(row) for row in [("sentence_a", "sentence_b"), *table]).encode()


def read(path: str, reading: FileReading = FileReading()) -> tuple[Table, list[str], list[str]]:
    """The texts of a file's pairs, the notes on it, and what is bad, without its directory."""
    notes: list[str] = []
    bad: list[InputError] = []
    texts = [record.pair.texts for record in read_pairs([path], reading, bad.append, notes.append)]
    assert all(note.startswith(f"{path}: ") for note in notes)
    directory = f"{Path(path).parent}{os.sep}"
    return (
        texts,
        [note.removeprefix(f"{path}: ") for note in notes],
        [error.what.removeprefix(directory) for error in bad],
    )


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "p.txt",
            'sentence, "one"\r\n\n \t\n two\tthree \n',
            [(('sentence, "one"',), 1), ((" two\tthree ",), 4)],
        ),
        (
            "p.tsv",
            'sentence1\tsentence2\n"a\tb"\n""c""\t"d\n',
            [(('"a', 'b"'), 2), (('""c""', '"d'), 3)],
        ),
        (
            "p.csv",
            HEADER + '"a\r\n\r\nb","c ""d"", e"\n\n"f\ng",h\ni "j" k,l\n',
            [(("a\r\n\r\nb", 'c "d", e'), 2), (("f\ng", "h"), 6), (('i "j" k', "l"), 8)],
        ),
        (
            "p.jsonl",
            '\ufeff{"text": "a"}\r\n\r\n \t\n{"text": "c \\ud83d\\ude00"}\r\n',
            [(("a",), 1), (("c 😀",), 4)],
        ),
        (
            "p.tsv",
            "\ufeff\r\n sentence_a\tsentence_b\r\n\r\na\tb\r\n \r\né\t日本\r\n",
            [(("a", "b"), 4), (("é", "日本"), 6)],
        ),
        ("p.csv", f"{HEADER}\n \n", []),
        ("p.txt", "\n \n", []),
        # characters that Python's str.splitlines takes for line ends
        ("p.tsv", "text\na\x0bb\x0c\x1c\x85\u2028c\n", [(("a\x0bb\x0c\x1c\x85\u2028c",), 2)]),
        ("p.csv", "text\na\x0bb\x0c\x1c\x85\u2028c\n", [(("a\x0bb\x0c\x1c\x85\u2028c",), 2)]),
        (
            "p.txt",
            "a\x0bb\x0c\x1c\x85\u2028c\nc\rd\n",
            [(("a\x0bb\x0c\x1c\x85\u2028c",), 1), (("c",), 2), (("d",), 3)],
        ),
    ],
)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_cells_and_lines(
    make: Make, name: str, content: str, expected: list[tuple[tuple[str, ...], int]], packed: str
) -> None:
    path = make(name + packed, content.encode())
    assert [(r.pair.texts, int(r.where.rpartition(":")[2])) for r in read_pairs([path])] == expected


class TestHeader:
    @pytest.mark.parametrize(
        ("first", "columns", "names"),
        [
            ("x\ty", ("1", "2"), True),
            ("Sentence 1\tSentence 2", ("1", "2"), True),
            ("a b c d e\tx", ("1", "2"), False),
            ("gj04\t1\t\tIs it?", ("4",), False),
            ("Is it?\tx", ("2",), True),
            ("premise\thypothesis\tIs it?", None, True),
            ("Is it?\tNo.", None, False),
            ("It was a dark and stormy night", None, False),
            ("story", None, True),
        ],
    )
    def test_by_its_looks(
        self, make: Make, first: str, columns: tuple[str, ...] | None, names: bool
    ) -> None:
        line = "\t".join("z" for _ in first.split("\t"))
        for suffix, between in (("tsv", "\t"), ("csv", ",")):
            path = make(f"p.{suffix}", f"{first}\n{line}\n".replace("\t", between))
            texts, notes, bad = read(path, FileReading(columns))
            assert len(texts) == 2 - names and not bad
            note = notes[0] if notes else ""
            if not names:
                assert note.startswith("its first line looks like data") and "--header" in note
            assert bool(notes) == (
                first not in ("x\ty", "Is it?\tx", "premise\thypothesis\tIs it?")
            )

    def test_an_option_says_otherwise_and_nothing_is_told(self, make: Make) -> None:
        path = make("p.tsv", "Is it?\tNo.\nc\td\n")
        assert read(path, FileReading(("1", "2"), header=True)) == ([("c", "d")], [], [])
        assert read(make("q.tsv", "a\tb\nc\td\n"), FileReading(header=False)) == (
            [("a", "b"), ("c", "d")],
            [],
            [],
        )
        assert read(make("q.txt", "text\nc\n"), FileReading(header=True)) == ([("c",)], [], [])

    def test_without_names_columns_are_numbers(self, make: Make) -> None:
        path = make("p.csv", "1,a,b\n2,c,d,e\n")
        assert read(path, FileReading(("2", "3"), header=False)) == (
            [("a", "b"), ("c", "d")],
            [],
            [],
        )
        for reading, why in (
            (FileReading(header=False), "the columns are '1', '2', '3', and none is known"),
            (
                FileReading(("x",), header=False),
                "there is no column 'x'; the columns are '1', '2', '3'",
            ),
        ):
            with pytest.raises(PairsError, match=why) as caught:
                read(path, reading)
            assert "``columns``" in caught.value.remedy and caught.value.what.startswith(path)
        bad = read(make("q.csv", "1,a,b\n2\n"), FileReading(("2", "3"), header=False))[2]
        assert bad == ["q.csv:2: its number of fields is 1, where 3 are expected"]


def test_commas_come_first(make: Make) -> None:
    assert read(make("p.csv", "text1;x,text2;y,text\n1;2,3;4,a\n")) == ([("a",)], [], [])
    assert read(make("q.csv", "text\na; b\n")) == ([("a; b",)], [], [])


class TestQuoting:
    @pytest.mark.parametrize(
        ("rows", "quoted"),
        [
            (['"a ""b"""\tc'], True),
            (['"a\tb"\tc'], True),
            (['"a', 'b"\tc'], True),
            (['"a"\t"b"'], False),  # as the names have none
            (['"a" b\tc'], False),
            (['a\t"b', 'c\td"'], False),
            (['"a ""b"""\tc', '"d\te'], False),
        ],
    )
    def test_by_its_looks(self, make: Make, rows: Sequence[str], quoted: bool) -> None:
        path = make("p.tsv", "\n".join(["sentence1\tsentence2", "x\ty", *rows]) + "\n")
        texts, notes, _ = read(path)
        parsed = csv.reader(io.StringIO("\n".join(rows)), delimiter="\t")
        cells = parsed if quoted else (row.split("\t") for row in rows)
        assert texts == [("x", "y"), *map(tuple, cells)]
        assert (READ_SO in notes) == quoted

    @pytest.mark.parametrize(
        ("row", "is_told"), [('"a"\tb', True), ('"a" b\tc', False)]
    )  # which CSV cannot be
    def test_quotes_that_are_read_as_text_are_told_once(
        self, make: Make, row: str, is_told: bool
    ) -> None:
        texts, notes, _ = read(make("p.tsv", f"sentence1\tsentence2\nx\ty\n{row}\n{row}\n"))
        assert texts[1:] == [tuple(row.split("\t"))] * 2
        assert (
            notes
            == ["quotes around cells are read as text (--quoting csv if they are not)"][:is_told]
        )

    @pytest.mark.parametrize("quoting", ["csv", "none"])
    def test_an_option_says_otherwise_and_nothing_is_told(
        self, make: Make, quoting: Quoting
    ) -> None:
        content = 'text1\ttext2\n"a"\t"b ""c"""\n'
        expected = ("a", 'b "c"') if quoting == "csv" else ('"a"', '"b ""c"""')
        for name, written in (("p.tsv", content), ("p.csv", content.replace("\t", ","))):
            assert read(make(name, written), FileReading(quoting=quoting)) == ([expected], [], [])

    CELLS = st.text(st.sampled_from(list('ab "\t\n,')), min_size=1, max_size=6).filter(str.strip)

    @settings(deadline=None, max_examples=draws(100))
    @given(
        table=st.lists(st.tuples(CELLS, CELLS), max_size=6),
        quoted=st.booleans(),
        every=st.booleans(),
    )
    @example(table=[('"', "a")], quoted=True, every=False)
    @example(table=[("\ta\n", "a")], quoted=True, every=False)
    @example(table=[("a\t\n", "a")], quoted=True, every=True)
    def test_it_is_never_wrong_without_a_word(
        self, tmp_path_factory: pytest.TempPathFactory, table: Table, quoted: bool, every: bool
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "never.tsv"
        if quoted:
            style = csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
            path.write_bytes(as_csv(table, delimiter="\t", lineterminator="\n", quoting=style))
        else:
            table = [row for row in table if not set("\t\n") & set("".join(row))]
            path.write_bytes(as_tsv(table))
        texts, notes, bad = read(str(path))
        if quoted and not every:  # spaces before a cell without quotes are the format's
            table = [(a.lstrip(" ") or a, b.lstrip(" ") or b) for a, b in table]
            texts = [(a.lstrip(" "), b.lstrip(" ")) for a, b in texts]
        assert texts == table or notes or bad
        if quoted:
            assert texts == table or bad or notes[0] != READ_SO


LATIN = st.text(
    st.characters(codec="cp1252", exclude_characters='\0\r\n\t"'), min_size=1, max_size=9
).filter(str.strip)
GUESSED = "it is not UTF-8, and is read as Windows-1252 (--encoding NAME if it is not)"
GERMAN = [("Die Müller zahlen 5 €", "„Größe“"), ("plain", "cells")]
BYTE = "character 2 is a byte that is not UTF-8, or half of one"


@pytest.mark.parametrize(
    ("codec", "encoding", "notes"),
    [
        ("utf-8-sig", None, []),
        ("utf-16", None, []),
        ("cp1252", None, [GUESSED]),
        ("cp1252", "windows-1252", []),
        ("utf-16-le", "utf-16-le", []),
        ("gb18030", "gb18030", []),
        ("utf-8-sig", "utf-8", []),
        ("utf-16", "cp1252", []),  # a mark is no guess
        ("utf-32", "utf-32", []),  # whose mark begins as that of UTF-16
    ],
)
@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "p.csv"])
def test_the_same_pairs_in_every_encoding(
    make: Make, name: str, codec: str, encoding: str | None, notes: list[str]
) -> None:
    written = as_csv(GERMAN) if "csv" in name else as_tsv(GERMAN, "\r\n")
    assert read(make(name, written.decode().encode(codec)), FileReading(encoding=encoding)) == (
        GERMAN,
        notes,
        [],
    )


@pytest.mark.parametrize(
    ("codec", "line", "encoding", "why"),
    [
        ("utf-8", b"c,d\xff\n", None, BYTE),
        ("ascii", b"c,d\xff\n", "utf-8", BYTE),
        ("cp1252", b"c,d\x81\n", "cp1252", BYTE),
        (
            "utf-16-le",
            b"c\0,\0\0\xd8d\0\n\0",
            None,
            "character 1 is a byte that is not UTF-8, or half of one",
        ),
    ],
)
def test_damage_costs_its_own_record(
    make: Make, codec: str, line: bytes, encoding: str | None, why: str
) -> None:
    word = "Gras" if codec == "ascii" else "Größe"
    good = f"{HEADER}x,y\n{word},b\n"
    last = "e,f\n"
    mark = b"\xff\xfe" if codec.startswith("utf-16") else b""
    path = make("p.csv", mark + good.encode(codec) + line + last.encode(codec))
    texts, notes, bad = read(path, FileReading(encoding=encoding))
    assert [pair[1] for pair in texts] == ["y", "b", "f"] and notes == []
    assert bad == [f"p.csv:4: sentence B is not valid Unicode: its {why}"]


@pytest.mark.parametrize("name", ["utf-99", "", "zip", "a\0b"])
def test_what_is_no_encoding(name: str) -> None:
    with pytest.raises(OptionError, match="there is no text encoding"):
        FileReading(encoding=name)


@given(
    pairs=st.lists(st.tuples(LATIN, LATIN), min_size=1, max_size=6),
    codec=st.sampled_from(["utf-16", "cp1252"]),
)
def test_any_table_comes_back_from_its_encoding(
    tmp_path_factory: pytest.TempPathFactory, pairs: Table, codec: str
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "p.tsv"
    content = as_tsv(pairs, "\r\n").decode().encode(codec)
    path.write_bytes(content)
    assert read(str(path), FileReading(encoding=codec)) == (pairs, [], [])
    texts, notes, bad = read(str(path))
    as_utf8 = content.decode("utf-8", "ignore").isascii()
    assert (texts == pairs and not bad) or (codec == "cp1252" and not as_utf8), (texts, notes, bad)


texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30
).filter(str.strip)
tricky = st.text(
    st.sampled_from(list("ab \t\n\r,;\"'\\{}\ufeff\x0b\x85\u2028é😀")), min_size=1, max_size=12
).filter(str.strip)
tables = st.lists(st.tuples(texts | tricky, texts | tricky), max_size=8)


def as_jsonl(table: Table, ensure_ascii: bool = False) -> bytes:
    rows = [
        json.dumps({"sentence_a": a, "sentence_b": b}, ensure_ascii=ensure_ascii) for a, b in table
    ]
    return "".join(f"{row}\n" for row in rows).encode()


def as_parquet(table: Table, **options: Any) -> bytes:
    cells = zip(*table, strict=True) if table else ((), ())
    columns = (pa.array(column, pa.string()) for column in cells)
    return parquet(dict(zip(("premise", "hypothesis"), columns, strict=True)), **options)


# Name -> characters that no cell may have, and how a table is written
WRITERS: dict[str, tuple[str, Callable[[Table], bytes]]] = {
    "p.csv": ("", as_csv),
    # Before Python 3.13, csv leaves a carriage return without quotes if it ends no lines.
    "lines.csv": ("\r", partial(as_csv, lineterminator="\n")),
    "quoted.csv": ("", partial(as_csv, lineterminator="\n", quoting=csv.QUOTE_ALL)),
    "marked.csv": ("", lambda table: b"\xef\xbb\xbf" + as_csv(table)),
    "p.tsv": ("\t\n\r", as_tsv),
    "dos.tsv": ("\t\n\r", partial(as_tsv, end="\r\n")),
    "p.jsonl": ("", as_jsonl),
    "ascii.jsonl": ("", partial(as_jsonl, ensure_ascii=True)),
    "p.parquet": ("", partial(as_parquet, row_group_size=2, compression="none")),
    "zstd.parquet": ("", partial(as_parquet, row_group_size=3, compression="zstd")),
}


SPACES_LOST = ("p.csv", "lines.csv", "marked.csv")
"""Where spaces before a cell without quotes are the format's."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


@pytest.mark.parametrize("name", WRITERS)
@settings(deadline=None, max_examples=draws(30))
@given(table=tables)
@example(table=[("\ufeffa", '"')])
def test_any_table_comes_back(directory: Path, name: str, table: Table) -> None:
    forbidden, write = WRITERS[name]
    table = [row for row in table if not set(forbidden) & set("".join(row))]
    if name in SPACES_LOST:
        table = [(a.lstrip(" "), b.lstrip(" ")) for a, b in table]
    for suffix, packed in (("", bytes), (".gz", gzipped)):
        path = directory / f"{name}{suffix}"
        path.write_bytes(packed(write(table)))
        assert [(pair.a, pair.b) for pair in pairs_in(str(path))] == table


@settings(deadline=None, max_examples=draws(60))
@given(sentences=st.lists(texts.filter(lambda text: not set(text) & set("\n\r"))))
@example(sentences=["0\t0"])
def test_lines_come_back(directory: Path, sentences: list[str]) -> None:
    sentences = [
        "a",
        *sentences,
    ]  # at the start of a file a sentence may be a mark, or a table's columns
    path = directory / "p.txt"
    path.write_text("\n".join(sentences), encoding="utf-8")
    assert [pair.texts for pair in pairs_in(str(path))] == [(sentence,) for sentence in sentences]


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl", "p.txt"])
@settings(deadline=None, max_examples=draws(60))
@given(
    content=st.binary(max_size=200) | st.lists(tricky).map("".join).map(str.encode),
    skip=st.booleans(),
)
def test_any_bytes_are_read_or_refused(
    directory: Path, name: str, content: bytes, skip: bool
) -> None:
    start = b"" if name in ("p.jsonl", "p.txt") else LINES[name[2:]][0].encode()
    path = directory / name
    path.write_bytes(start + content)
    bad: list[PairsError] = []
    try:
        for record in read_pairs([str(path)], on_bad=bad.append if skip else None):
            assert record.where.startswith(f"{path}:")
    except PairsError as error:
        bad.append(error)
    assert all(len(str(error).splitlines()) == 1 and str(path) in str(error) for error in bad)
