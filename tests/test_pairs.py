"""Files of pairs are read as they were written; a bad record is named by file and line, and costs no other."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnscan.errors import InputError, PairsError
from attnscan.files import readers
from attnscan.files.readers import MAX_BYTES, PARQUET, TEXT
from attnscan.pairs import COLUMNS, Pair, Record, about_how_many, read_pairs, shipped_pairs

ROOT = Path(__file__).parents[1]
HEADER = "sentence_a,sentence_b\n"
AB, CD, EF = Pair("a", "b"), Pair("c", "d"), Pair("e", "f")
Make = Callable[[str, str | bytes], str]


def gzipped(data: bytes) -> bytes:
    """`data` as a gzip file without the time: what names a test is the same in every process."""
    return gzip.compress(data, 1, mtime=0)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a file and returns its path."""

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzipped(data) if name.endswith(".gz") else data)
        return str(path)

    return write


def pairs_in(*paths: str, columns: Sequence[str] | None = None) -> list[Pair]:
    return [record.pair for record in read_pairs(paths, columns)]


def refusal(*paths: str, columns: Sequence[str] | None = None, skip: bool = False) -> PairsError:
    """The error that ends the reading, with or without --skip-bad."""
    with pytest.raises(PairsError) as caught:
        list(read_pairs(paths, columns, (lambda _: None) if skip else None))
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.remedy
    return caught.value


def skipping(path: str) -> tuple[list[Record], list[str]]:
    """The good records, and what was said of the bad ones, without the file's directory."""
    bad: list[PairsError] = []
    good = list(read_pairs([path], on_bad=bad.append))
    assert all("--skip-bad" in error.remedy for error in bad)
    return good, [error.what.removeprefix(f"{Path(path).parent}{os.sep}") for error in bad]


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


class Stdin:
    """Standard input, as far as it is read here."""

    closed = False

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("p.csv", HEADER + "a,b\nc,d\n"),
            ("p.CSV", HEADER + "a,b\nc,d\n"),
            ("p.csv", HEADER + '"a","b"\n"c",d'),
            ("p.tsv", "sentence_a\tsentence_b\na\tb\nc\td\n"),
            ("p.jsonl", '{"sentence_a": "a", "sentence_b": "b"}\n{"sentence_b": "d", "x": [1], "sentence_a": "c"}\n'),
            ("p.ndjson", '{"sentence_a": "a", "sentence_b": "b"}\n{"sentence_a": "c", "sentence_b": "d"}'),
            ("p.parquet", parquet({"sentence_a": ["a", "c"], "sentence_b": ["b", "d"]})),
            ("p.pq", parquet({"x": [1, 2], "sentence_b": ["b", "d"], "sentence_a": ["a", "c"]})),
        ],
    )
    @pytest.mark.parametrize("packed", [False, True])
    def test_two_pairs(self, make: Make, name: str, content: str | bytes, packed: bool) -> None:
        if packed and isinstance(content, bytes):
            assert "cannot tell the format" in refusal(make(f"{name}.gz", content)).what
        else:
            assert pairs_in(make(f"{name}.gz" if packed else name, content)) == [AB, CD]

    @pytest.mark.parametrize("packed", ["", ".gz"])
    def test_a_text_is_a_sentence_a_line(self, make: Make, packed: str) -> None:
        path = make(f"p.txt{packed}", 'sentence, "one"\r\n\n \t\n two\tthree \n')
        assert [(r.pair, r.where) for r in read_pairs([path])] == [
            (Pair('sentence, "one"'), f"{path}:1"),
            (Pair(" two\tthree "), f"{path}:4"),
        ]

    def test_several_files_in_their_order(self, make: Make) -> None:
        one, two = make("1.csv", HEADER + "a,b\n"), make("2.txt", "c\n")
        assert pairs_in(two, one, two) == [Pair("c"), AB, Pair("c")]

    def test_no_file_has_no_pair(self) -> None:
        assert pairs_in() == []

    def test_a_tsv_keeps_its_quotes(self, make: Make) -> None:
        path = make("p.tsv", 'sentence1\tsentence2\n"a\tb"\n""c""\t"d\n')
        assert pairs_in(path) == [Pair('"a', 'b"'), Pair('""c""', '"d')]

    def test_a_csv_cell_may_have_lines_quotes_and_commas(self, make: Make) -> None:
        path = make("p.csv", HEADER + '"a\r\n\r\nb","c ""d"", e"\n\n"f\ng",h\ni "j" k,l\n')
        assert [(r.pair, r.where) for r in read_pairs([path])] == [
            (Pair("a\r\n\r\nb", 'c "d", e'), f"{path}:2"),
            (Pair("f\ng", "h"), f"{path}:6"),
            (Pair('i "j" k', "l"), f"{path}:8"),
        ]

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    @pytest.mark.parametrize(("name", "separator"), [("p.csv", ","), ("p.tsv", "\t")])
    def test_line_ends_and_byte_order_marks(self, make: Make, end: str, mark: str, name: str, separator: str) -> None:
        rows = ["", ["sentence_a", "sentence_b"], "", ["a", "b"], " ", ["é", "日本"], ""]
        content = mark + end.join(separator.join(row) for row in rows)
        assert pairs_in(make(name, content)) == [AB, Pair("é", "日本")]

    def test_jsonl_with_a_mark_and_blank_lines(self, make: Make) -> None:
        path = make("p.jsonl", '\ufeff{"text": "a"}\r\n\r\n \t\n{"text": "c \\ud83d\\ude00"}\r\n')
        assert pairs_in(path) == [Pair("a"), Pair("c 😀")]

    def test_only_line_feeds_end_lines(self, make: Make) -> None:
        odd = "a\x0bb\x0c\x1c\x85\u2028c"
        assert pairs_in(make("p.txt", odd)) == [Pair(odd)]
        assert pairs_in(make("p.tsv", f"text\n{odd}\n")) == [Pair(odd)]
        assert pairs_in(make("p.csv", f"text\n{odd}\n")) == [Pair(odd)]

    @pytest.mark.parametrize("size", [200_000, 3 << 20])
    @pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.txt", "p.jsonl"])
    def test_long_cells_are_fine(self, make: Make, name: str, size: int) -> None:
        long = "x" * size
        line = json.dumps({"text": long}) if name == "p.jsonl" else long
        assert pairs_in(make(name, line if name in ("p.txt", "p.jsonl") else f"text\n{line}\n")) == [Pair(long)]

    @pytest.mark.parametrize(
        "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()], ids=str
    )
    def test_every_kind_of_text_in_parquet(self, make: Make, kind: pa.DataType) -> None:
        try:
            content = parquet({"a.b": pa.array(["a", "c"]).cast(kind), "n": [1, 2]})
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # older Arrow does not write string views
            pytest.skip("not written by this version of pyarrow")
        assert pairs_in(make("p.parquet", content), columns=["a.b"]) == [Pair("a"), Pair("c")]

    def test_parquet_rows_are_numbered_across_groups(self, make: Make) -> None:
        texts = [f"sentence {number}" for number in range(1, 101)]
        path = make("p.parquet", parquet({"text": texts}, row_group_size=7))
        records = list(read_pairs([path]))
        assert [r.where for r in records] == [f"{path}: row {number}" for number in range(1, 101)]
        assert [r.pair.a for r in records] == texts

    def test_an_uneven_choice_of_parquet_columns(self, make: Make) -> None:
        path = make("p.parquet", parquet({"x": ["a"], "y": ["b"]}))
        assert pairs_in(path, columns=["y", "x"]) == [Pair("b", "a")]
        assert pairs_in(path, columns=["2", "2"]) == [Pair("b", "b")]

    def test_formats_are_all_known(self) -> None:
        assert TEXT == (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")
        assert PARQUET == (".parquet", ".pq")


class TestStdin:
    @pytest.mark.parametrize(
        "content",
        [
            HEADER + "a,b\nc,d\n",
            "\ufeff" + HEADER + "a,b\nc,d\n",
            "\n\n" + HEADER + "a,b\nc,d\n",
            "sentence1\tsentence2\na\tb\nc\td\n",
            "\ufeff\r\nsentence1\tsentence2\r\na\tb\r\nc\td",
            '{"sentence_a": "a", "sentence_b": "b"}\n{"sentence_a": "c", "sentence_b": "d"}\n',
            ' {"sentence_a": "a", "sentence_b": "b", "t": "\t"}\n\n{"sentence_a": "c", "sentence_b": "d"}\n'.replace(
                "\t", "\\t"
            ),
        ],
    )
    def test_the_first_line_tells_the_format(self, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
        monkeypatch.setattr(sys, "stdin", Stdin(content.encode()))
        assert pairs_in("-") == [AB, CD]

    def test_where(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", Stdin(b"\ntext\na\n\nb\n"))
        assert [record.where for record in read_pairs(["-"])] == ["standard input:3", "standard input:5"]

    def test_it_is_left_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stdin = Stdin(b"text\na\n")
        monkeypatch.setattr(sys, "stdin", stdin)
        assert pairs_in("-") == [Pair("a")]
        assert not stdin.buffer.closed

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"", "standard input is empty"),
            (b"\n\n", "standard input is empty"),
            (b"a\0b\n", "NUL"),
            (gzipped(b"text\na\n"), "standard input is gzip"),
            (parquet({"text": ["a"]}), "standard input is Parquet"),
            (b"x,y\n1,2\n", "the columns are 'x', 'y'"),
            (b'{"text": }\n', "standard input:1: is not sound JSON"),
            (b"x" * (MAX_BYTES + 1), "longer than 16 MiB"),
        ],
    )
    def test_refused(self, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str) -> None:
        monkeypatch.setattr(sys, "stdin", Stdin(content))
        assert why in refusal("-").what

    def test_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        assert "is closed" in refusal("-").what

    def test_twice(self, make: Make) -> None:
        path = make("p.csv", HEADER)
        with pytest.raises(PairsError, match="named twice"):
            read_pairs(["-", path, "-"])

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_read_like_it(self, tmp_path: Path) -> None:
        """What a shell's <(zcat pairs.tsv.gz) is: a pipe whose name has no suffix."""
        pipe = tmp_path / "63"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=("text_a\ttext_b\na\tb\n",))
        writer.start()
        assert pairs_in(str(pipe)) == [AB]
        writer.join()


class TestColumns:
    @pytest.mark.parametrize("columns", COLUMNS, ids="/".join)
    @pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
    def test_the_usual_names(self, make: Make, columns: Sequence[str], form: str) -> None:
        shown = ["id", *(f" {name.upper()} " for name in reversed(columns)), "label"]
        cells = ["7", *reversed(["a", "b"][: len(columns)]), "yes"]
        content: dict[str, str | bytes] = {
            "csv": f"{','.join(shown)}\n{','.join(cells)}\n",
            "tsv": "\t".join(shown) + "\n" + "\t".join(cells) + "\n",
            "jsonl": json.dumps(dict(zip(shown, cells, strict=True))),
            "parquet": parquet({name: [cell] for name, cell in zip(shown, cells, strict=True)}),
        }
        assert pairs_in(make(f"p.{form}", content[form])) == [Pair(*["a", "b"][: len(columns)])]

    def test_their_order(self) -> None:
        assert ["/".join(columns) for columns in COLUMNS] == [
            "sentence_a/sentence_b",
            "sentence1/sentence2",
            "premise/hypothesis",
            "question1/question2",
            "question/sentence",
            "text_a/text_b",
            "text",
            "sentence",
        ]

    @pytest.mark.parametrize(
        ("header", "cells", "pair"),
        [
            ("text,sentence_b,sentence_a", "x,b,a", AB),
            ("premise,sentence1,sentence2,hypothesis", "x,a,b,y", AB),
            ("sentence,question", "b,a", AB),
            ("sentence,text_b,text_a", "x,b,a", AB),
            ("sentence,text", "b,a", Pair("a")),
            ("sentence,hypothesis", "a,x", Pair("a")),
            ("anything", "a", Pair("a")),
            ("sentence_a", "a", Pair("a")),
        ],
    )
    def test_which_comes_first(self, make: Make, header: str, cells: str, pair: Pair) -> None:
        assert pairs_in(make("p.csv", f"{header}\n{cells}\n")) == [pair]

    @pytest.mark.parametrize(
        ("header", "columns", "pair"),
        [
            ("x,y,z", ["x", "z"], Pair("1", "3")),
            ("x,y,z", ["z", "x"], Pair("3", "1")),
            ("x,y,z", ["y"], Pair("2")),
            ("x,y,z", ["3", "1"], Pair("3", "1")),
            ("x,3,1", ["3", "1"], Pair("2", "3")),
            (" X ,y,z", ["x", "Y "], Pair("1", "2")),
            ("Text,text,z", ["text", "Text"], Pair("2", "1")),
            ("x,x,z", ["2", "1"], Pair("2", "1")),
            ("sentence_a,sentence_b,z", ["z"], Pair("3")),
            ("Straße,y,z", ["STRASSE"], Pair("1")),
        ],
    )
    def test_named(self, make: Make, header: str, columns: list[str], pair: Pair) -> None:
        assert pairs_in(make("p.csv", f"{header}\n1,2,3\n"), columns=columns) == [pair]
        assert pairs_in(make("p.tsv", f"{header}\n1,2,3\n".replace(",", "\t")), columns=columns) == [pair]

    @pytest.mark.parametrize(
        ("header", "columns", "why"),
        [
            ("id,premise,label", None, "the columns are 'id', 'premise', 'label', and none is known"),
            ("sentence_a;sentence_b", None, "the only column is 'sentence_a;sentence_b', as if another separator"),
            ("sentence_a\tsentence_b", None, "as if another separator"),
            ("x,y", ["z"], "there is no column 'z'; the columns are 'x', 'y'"),
            ("x,y", ["x", "3"], "there is no column '3'"),
            ("x,y", ["0"], "there is no column '0'"),
            ("x,y", ["-1"], "there is no column '-1'"),
            ("x,y", ["²"], "there is no column '²'"),
            ("x,y", ["9" * 5000], "there is no column"),
            ("X,x ", ["x "], None),
            ("X, x", ["x"], "2 columns are called 'x'"),
            ("text,Text,x", None, None),
            ("TEXT,Text,x", None, "2 columns are called 'text'"),
            ("x,y", [], "0 columns were named"),
            ("x,y", ["x", "y", "x"], "3 columns were named"),
        ],
    )
    def test_refused(self, make: Make, header: str, columns: list[str] | None, why: str | None) -> None:
        path = make("p.csv", f"{header}\n{'a,' * header.count(',')}b\n")
        if why is None:
            assert pairs_in(path, columns=columns)
            return
        for skip in (False, True):
            error = refusal(path, columns=columns, skip=skip)
            assert why in error.what
            assert "--columns" in error.remedy or "were named" in why
            assert path in error.what or "were named" in why

    def test_many_long_names_are_cut(self, make: Make) -> None:
        line = str(refusal(make("p.csv", ",".join("x" * 500 for _ in range(500)))))
        assert "…" in line
        assert len(line) < 1500

    def test_a_text_has_one_column(self, make: Make) -> None:
        path = make("p.txt", "a\n")
        assert pairs_in(path, columns=["1"]) == [Pair("a")]
        assert "the columns are 'sentence'" in refusal(path, columns=["2"]).what

    def test_the_first_json_record_that_fits_decides(self, make: Make) -> None:
        path = make(
            "p.jsonl", '{"premise": "x"}\n{"Premise": "a", "Hypothesis": "b"}\n{"Premise": "c"}\n{"premise": "e"}'
        )
        good, bad = skipping(path)
        assert [record.pair for record in good] == [AB]
        assert bad == [
            "p.jsonl:1: the only column is 'premise', which is half of a pair",
            "p.jsonl:3: has no field 'Hypothesis'",
            "p.jsonl:4: has no field 'Premise'",
        ]
        assert pairs_in(make("q.jsonl", '{"premise": "x"}\n'), columns=["premise"]) == [Pair("x")]

    @pytest.mark.parametrize("skip", [False, True])
    def test_json_without_the_columns_is_refused(self, make: Make, skip: bool) -> None:
        path = make("p.jsonl", '{"x": "1", "y": "2"}\n{"x": "1", "z": "2"}\n')
        assert "the columns are 'x', 'y'" in refusal(path, skip=skip).what
        assert "there is no column 'z'" in refusal(make("q.jsonl", '{"x": "1"}\n'), columns=["z"], skip=skip).what
        assert "the columns are none" in refusal(make("r.jsonl", "{}\n"), skip=skip).what


BAD = {
    "csv": [
        ("one field", "c", "its number of fields is 1"),
        ("three fields", "c,d,e", "its number of fields is 3"),
        ("no second sentence", "c,", "sentence B is empty"),
        ("no first sentence", " ,d", "sentence A is empty"),
        ("nothing", ",", "sentence A is empty"),
        ("empty quotes", '""', "its number of fields is 1"),
        ("white space", "c,\u3000\xa0", "sentence B is empty"),
        ("not UTF-8", b"c,d\xff", "is not valid UTF-8 at byte 4 of line 3"),
        ("half a character", b"c,\xc3", "is not valid UTF-8 at byte 3 of line 3"),
        ("a coded surrogate", b"c,\xed\xa0\x80", "is not valid UTF-8"),
        ("NUL", "c,d\0", "has a NUL character in line 3"),
        ("text after a quote", '"c"x,d', "is not sound CSV: ',' expected"),
        ("an open quote", '"c,d', "is not sound CSV: unexpected end"),
        ("a lone carriage return", "c\rx,d", "is not sound CSV: new-line character"),
    ],
    "tsv": [
        ("one field", "c", "its number of fields is 1"),
        ("three fields", "c\td\te", "its number of fields is 3"),
        ("no second sentence", "c\t", "sentence B is empty"),
        ("nothing", "\t", "sentence A is empty"),
        ("not UTF-8", b"c\t\xe9t\xe9", "is not valid UTF-8 at byte 3 of line 3"),
        ("NUL", "c\0\td", "has a NUL character in line 3"),
    ],
    "jsonl": [
        ("no field", '{"sentence_a": "c"}', "has no field 'sentence_b'"),
        ("an empty object", "{}", "has no field 'sentence_a'"),
        ("null", '{"sentence_a": "c", "sentence_b": null}', "sentence B is missing"),
        ("a number", '{"sentence_a": 1, "sentence_b": "d"}', "sentence A is not text"),
        ("a truth", '{"sentence_a": "c", "sentence_b": true}', "sentence B is not text"),
        ("an object", '{"sentence_a": {}, "sentence_b": "d"}', "sentence A is not text"),
        ("a list", '{"sentence_a": ["c"], "sentence_b": "d"}', "sentence A is not text"),
        ("blank", '{"sentence_a": "c", "sentence_b": " \\n"}', "sentence B is empty"),
        ("half a pair", '{"sentence_a": "c", "sentence_b": "d\\ud800"}', "sentence B is not valid Unicode"),
        ("NUL", '{"sentence_a": "c\\u0000", "sentence_b": "d"}', "sentence A has a NUL"),
        ("a NUL byte", '{"sentence_a": "c\0", "sentence_b": "d"}', "has a NUL character in line 3"),
        ("not UTF-8", b'{"sentence_a": "c", "sentence_b": "\xff"}', "is not valid UTF-8"),
        ("broken", '{"sentence_a": "c", "sentence_b": "d"', "is not sound JSON at character 39"),
        ("two objects", '{"sentence_a": "c"} {}', "is not sound JSON at character 21: Extra data"),
        ("an array", '["c", "d"]', "is not a JSON object"),
        ("a string", '"c"', "is not a JSON object"),
        ("deep", "[" * 200_000, "is nested too deeply"),
        ("digits", '{"sentence_a": ' + "1" * 5000 + "}", "is not sound JSON"),
    ],
}
LINES = {
    "csv": [HEADER, "a,b\n", "e,f\n"],
    "tsv": ["sentence_a\tsentence_b\n", "a\tb\n", "e\tf\n"],
    "jsonl": ["\n", '{"sentence_a": "a", "sentence_b": "b"}\n', '{"sentence_a": "e", "sentence_b": "f"}\n'],
}
CASES = [pytest.param(form, *case[1:], id=f"{form}, {case[0]}") for form, cases in BAD.items() for case in cases]


class TestBadRecords:
    @pytest.mark.parametrize("packed", ["", ".gz"])
    @pytest.mark.parametrize(("form", "line", "why"), CASES)
    def test_named_or_left_out(self, make: Make, form: str, line: str | bytes, why: str, packed: str) -> None:
        data = line.encode() if isinstance(line, str) else line
        start, good, last = (text.encode() for text in LINES[form])
        path = make(f"p.{form}{packed}", start + good + data + b"\n" + last)
        reading = read_pairs([path])
        assert next(reading).pair == AB
        with pytest.raises(PairsError) as caught:
            next(reading)
        assert caught.value.what.startswith(f"{path}:3: {why}")
        assert "--skip-bad" in caught.value.remedy
        assert len(str(caught.value)) < len(path) + 250
        records, bad = skipping(path)
        assert [(r.pair, r.where) for r in records] == [(AB, f"{path}:2"), (EF, f"{path}:4")]
        assert len(bad) == 1
        assert bad[0].startswith(f"p.{form}{packed}:3: {why}")

    def test_an_open_quote_takes_no_other_line_along(self, make: Make) -> None:
        good, bad = skipping(make("p.csv", HEADER + 'a,b\n"x,y\nc,d\n"e",f\n\n"multi\nline",z\n'))
        assert [record.pair for record in good] == [AB, CD, EF, Pair("multi\nline", "z")]
        assert [record.where.rpartition(":")[2] for record in good] == ["2", "4", "5", "7"]
        assert bad == ["p.csv:3: is not sound CSV: ',' expected after '\"'"]

    def test_bad_bytes_in_a_row_of_lines_are_of_that_row(self, make: Make) -> None:
        good, bad = skipping(make("p.csv", HEADER.encode() + b'"x\n\xff\ny",z\nc,d\n'))
        assert [record.pair for record in good] == [CD]
        assert bad == ["p.csv:2: is not valid UTF-8 at byte 1 of line 3"]

    @pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "txt"])
    def test_a_line_beyond_the_bound(self, make: Make, form: str) -> None:
        start, *_ = LINES.get(form, [""])
        long = '{"sentence_a": "' + "x" * MAX_BYTES + '", "sentence_b": "y"}\n'
        last = LINES[form][2] if form in LINES else "e\n"
        path = make(f"p.{form}", start + "\n" + long + last)
        at = 2 + start.count("\n")
        good, bad = skipping(path)
        assert [record.where for record in good] == [f"{path}:{at + 1}"]
        assert bad == [f"p.{form}:{at}: is longer than 16 MiB or 65536 lines"]
        assert bad[0] in refusal(path).what

    def test_the_longest_line_is_read(self, make: Make) -> None:
        longest = "x" * (MAX_BYTES - 1)
        assert pairs_in(make("p.txt", f"{longest}\na\n")) == [Pair(longest), Pair("a")]

    def test_too_long_a_line_within_a_row(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_BYTES", 100)
        good, bad = skipping(make("p.csv", HEADER + 'a,b\n"x\ny\n' + "z" * 250 + '\nc,d\n"e",f\n'))
        assert [(r.pair, r.where[-2:]) for r in good] == [(AB, ":2"), (CD, ":6"), (EF, ":7")]
        assert [what[:8] for what in bad] == ["p.csv:3:", "p.csv:4:", "p.csv:5:"]

    def test_a_row_of_too_many_lines(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_LINES", 10)
        good, bad = skipping(make("p.csv", HEADER + '"x,y\n' + "a,b\n" * 30))
        assert [record.pair for record in good] == [AB] * 30
        assert len(bad) == 1
        assert bad[0].endswith("lines, as if a quote were left open")

    def test_quotes_that_never_close_take_no_quadratic_time(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each of these lines, read from its start, opens a row that goes on to the end of the file."""
        monkeypatch.setattr(readers, "_MAX_REREAD", 1 << 20)
        path = make("p.csv", HEADER + 'a",b,"\n' * 200_000 + "a,b")
        before = time.process_time()
        good, bad = skipping(path)
        assert time.process_time() - before < 10
        assert not good
        assert bad

    @pytest.mark.parametrize(
        ("columns", "why"),
        [
            ({"sentence_a": ["a", "c"], "sentence_b": ["b", None]}, "sentence B is missing"),
            ({"sentence_a": ["a", " "], "sentence_b": ["b", "d"]}, "sentence A is empty"),
            ({"sentence_a": ["a", "c\0"], "sentence_b": ["b", "d"]}, "sentence A has a NUL"),
            (
                {
                    "sentence_a": ["a", "c"],
                    "sentence_b": pa.Array.from_buffers(
                        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"b\xff")]
                    ),
                },
                "is not valid UTF-8",
            ),
        ],
    )
    def test_in_parquet(self, make: Make, columns: dict[str, Any], why: str) -> None:
        path = make(
            "p.parquet",
            parquet(
                {
                    name: pa.concat_arrays(
                        [v if isinstance(v, pa.Array) else pa.array(v), pa.array(["e" if name.endswith("a") else "f"])]
                    )
                    for name, v in columns.items()
                }
            ),
        )
        assert refusal(path).what.startswith(f"{path}: row 2: {why}")
        good, bad = skipping(path)
        assert [(r.pair, r.where) for r in good] == [(AB, f"{path}: row 1"), (EF, f"{path}: row 3")]
        assert len(bad) == 1

    def test_an_error_of_the_caller_passes(self, make: Make) -> None:
        def stop(error: PairsError) -> None:
            raise KeyError(error.what)

        with pytest.raises(KeyError):
            list(read_pairs([make("p.csv", HEADER + "x\n")], on_bad=stop))

    def test_a_bad_record_is_an_input_error(self) -> None:
        assert issubclass(PairsError, InputError)


class TestBadFiles:
    """They end the reading, whether bad records are skipped or not."""

    @pytest.fixture(params=[False, True], ids=["", "skip"])
    def skip(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param)

    @pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none", "none.csv.gz", "sub/none.tsv", "~/none.tsv"])
    def test_missing(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(PairsError, match="there is no file"):  # at once, before the first is read
            read_pairs([str(tmp_path / name)])

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("d.csv", "is a directory"),
            ("p.xlsx", "cannot tell the format"),
            ("p.gz", "cannot tell the format"),
            ("p", "cannot tell the format"),
            ("p.json", "cannot tell the format"),
            ("p.parquet.gz", "cannot tell the format"),
            ("p.txt/p.csv", "Not a directory"),
            ("p" * 300 + ".csv", "File name too long"),
            ("a\0b.csv", "null byte"),
        ],
    )
    def test_no_file_of_ours(self, tmp_path: Path, make: Make, name: str, why: str) -> None:
        (tmp_path / "d.csv").mkdir()
        for other in ("p.xlsx", "p.gz", "p", "p.json", "p.parquet.gz", "p.txt"):
            make(other, "text\na\n")
        error = refusal(str(tmp_path / name))
        assert why in error.what
        with pytest.raises(PairsError):
            read_pairs([str(tmp_path / name)])

    def test_it_is_said_what_formats_there_are(self, make: Make) -> None:
        remedy = refusal(make("p.doc", "x")).remedy
        assert all(suffix in remedy for suffix in (*TEXT, *PARQUET, ".gz"))

    @pytest.mark.parametrize("name", ["p.csv", "p.tsv.gz", "p.parquet"])
    def test_no_permission(self, make: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        path = make(name, "text\na\n")
        monkeypatch.setattr(Path, "open", refuse)
        assert str(refusal(path)) == f"cannot read {path}: Permission denied; check the file"

    @pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz"])
    @pytest.mark.parametrize("content", ["", "\n", "\r\n \n", "\ufeff", "\ufeff\n"])
    def test_no_header(self, make: Make, skip: bool, name: str, content: str) -> None:
        assert "is empty" in refusal(make(name, content), skip=skip).what

    @pytest.mark.parametrize("name", ["p.jsonl", "p.txt", "p.jsonl.gz"])
    def test_without_a_header_none_may_follow(self, make: Make, name: str) -> None:
        assert pairs_in(make(name, "")) == []
        assert pairs_in(make(name, "\n \n")) == []

    @pytest.mark.parametrize("content", [HEADER, HEADER.strip(), HEADER + "\n"])
    def test_a_header_alone_is_no_error(self, make: Make, content: str) -> None:
        assert pairs_in(make("p.csv", content)) == []

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"text\xff\na\n", "is not valid UTF-8 at byte 5 of line 1"),
            (b"te\0xt\na\n", "has a NUL character in line 1"),
            (b'"text"x,y\na\n', "is not sound CSV"),
            (b'"text\na\n', "is not sound CSV"),
            ("text\na\n".encode("utf-16"), "is UTF-16"),
            (b"text\ra\r", "is not sound CSV: new-line character"),
            (gzipped(b"text\na\n"), "is gzip"),
        ],
    )
    def test_a_bad_header(self, make: Make, skip: bool, content: bytes, why: str) -> None:
        error = refusal(make("p.csv", content), skip=skip)
        assert why in error.what
        assert "--skip-bad" not in error.remedy

    @pytest.mark.parametrize("name", ["p.jsonl", "p.txt"])
    def test_utf_16(self, make: Make, skip: bool, name: str) -> None:
        assert "is UTF-16" in refusal(make(name, '{"text": "a"}\n'.encode("utf-16")), skip=skip).what

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"", "is empty"),
            (b"text\na\n", "is not a whole gzip file"),
            (gzipped(b"text\na\n")[:-1], "is not a whole gzip file"),
            (gzipped(b"text\na\n") + b"x", "is not a whole gzip file"),
            (gzipped(b"text\na\n")[:-8] + bytes(8), "is not a whole gzip file"),
        ],
        ids=["empty", "not packed", "cut", "more", "checksum"],
    )
    @pytest.mark.parametrize("name", ["p.csv.gz", "p.txt.gz"])
    def test_no_gzip(self, tmp_path: Path, skip: bool, content: bytes, why: str, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        assert why in refusal(str(path), skip=skip).what

    def test_two_gzip_files_in_one(self, tmp_path: Path) -> None:
        path = tmp_path / "p.csv.gz"
        path.write_bytes(gzipped((HEADER + "a,b\nc").encode()) + gzipped(b",d\n"))
        assert pairs_in(str(path)) == [AB, CD]

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"", "is not a sound Parquet file"),
            (b"text\na\n", "is not a sound Parquet file"),
            (b"PAR1" * 10, "is not a sound Parquet file"),
            (parquet({"text": [1, 2]}), "its column 'text' is not text but int64"),
            (parquet({"text": [b"a"]}), "its column 'text' is not text but binary"),
            (parquet({"text": pa.nulls(2)}), "its column 'text' is not text but null"),
            (parquet({"text": [["a"]]}), "its column 'text' is not text but list"),
            (parquet({"text": pa.array([1]).dictionary_encode()}), "its column 'text' is not text but int64"),
            (parquet({"x": ["a"], "y": ["b"]}), "the columns are 'x', 'y'"),
        ],
    )
    def test_parquet(self, make: Make, skip: bool, content: bytes, why: str) -> None:
        path = make("p.parquet", content)
        error = refusal(path, skip=skip)
        assert error.what.startswith(path)
        assert why in error.what

    def test_two_parquet_columns_of_one_name(self, make: Make) -> None:
        file = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"]), file)
        path = make("p.parquet", file.getvalue())
        assert "2 columns are called 'x'" in refusal(path, columns=["x"]).what
        assert "two columns are called 'x'" in refusal(path, columns=["2"]).what

    def test_without_pyarrow(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        path = make("p.parquet", parquet({"text": ["a"]}))
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert "pip install 'attnscan[parquet]'" in refusal(path).remedy


characters = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.text(characters, min_size=1, max_size=30).filter(str.strip)
tricky = st.text(st.sampled_from(list("ab \t\n\r,;\"'\\{}\ufeff\x0b\x85\u2028é😀")), min_size=1, max_size=12).filter(
    str.strip
)
tables = st.lists(st.tuples(texts | tricky, texts | tricky), max_size=8)
# Before Python 3.13, the csv module leaves a carriage return without quotes if it ends no lines.
UNQUOTED = {"lineterminator": "\n"}
STYLES: list[dict[str, Any]] = [{}, UNQUOTED, {"lineterminator": "\n", "quoting": csv.QUOTE_ALL}]
rounds = settings(deadline=None, max_examples=60)


def as_csv(table: Iterable[tuple[str, str]], **style: Any) -> str:
    file = io.StringIO()
    csv.writer(file, **style).writerows([("sentence_a", "sentence_b"), *table])
    return file.getvalue()


def read_back(directory: Path, name: str, content: bytes) -> list[tuple[str, str | None]]:
    path = directory / name
    path.write_bytes(content)
    return [(pair.a, pair.b) for pair in pairs_in(str(path))]


class TestRoundTrip:
    @pytest.fixture(scope="class")
    def directory(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("round")

    @rounds
    @given(table=tables, style=st.sampled_from(STYLES), mark=st.sampled_from([b"", b"\xef\xbb\xbf"]))
    @example(table=[("\ufeffa", '"')], style={}, mark=b"")
    def test_csv(self, directory: Path, table: list[tuple[str, str]], style: dict[str, Any], mark: bytes) -> None:
        if style == UNQUOTED:
            table = [(a, b) for a, b in table if "\r" not in a + b]
        content = mark + as_csv(table, **style).encode()
        assert read_back(directory, "p.csv", content) == table
        assert read_back(directory, "p.csv.gz", gzipped(content)) == table

    @rounds
    @given(table=tables, end=st.sampled_from(["\n", "\r\n"]))
    def test_tsv(self, directory: Path, table: list[tuple[str, str]], end: str) -> None:
        flat = [(a, b) for a, b in table if not any(c in a + b for c in "\t\n\r")]
        content = end.join("\t".join(row) for row in [("sentence_a", "sentence_b"), *flat]).encode()
        assert read_back(directory, "p.tsv", content) == flat
        assert read_back(directory, "p.tsv.gz", gzipped(content)) == flat

    @rounds
    @given(table=tables, ascii_only=st.booleans())
    def test_jsonl(self, directory: Path, table: list[tuple[str, str]], ascii_only: bool) -> None:
        records = [json.dumps({"sentence_a": a, "sentence_b": b}, ensure_ascii=ascii_only) for a, b in table]
        content = "".join(f"{record}\n" for record in records).encode()
        assert read_back(directory, "p.jsonl", content) == table
        assert read_back(directory, "p.jsonl.gz", gzipped(content)) == table

    @rounds
    @given(table=tables, group=st.integers(1, 4), codec=st.sampled_from(["snappy", "zstd", "none"]))
    def test_parquet(self, directory: Path, table: list[tuple[str, str]], group: int, codec: str) -> None:
        columns = {
            name: pa.array([row[i] for row in table], pa.string()) for i, name in enumerate(["premise", "hypothesis"])
        }
        content = parquet(columns, row_group_size=group, compression=codec)
        assert read_back(directory, "p.parquet", content) == table

    @rounds
    @given(sentences=st.lists(texts.filter(lambda text: not set(text) & set("\n\r"))))
    @example(sentences=["a", "\ufeffb"])
    def test_txt(self, directory: Path, sentences: list[str]) -> None:
        if sentences and sentences[0].startswith("\ufeff"):
            sentences = ["a", *sentences]  # at the start of a file it is a mark, not text
        content = "\n".join(sentences).encode()
        assert read_back(directory, "p.txt", content) == [(sentence, None) for sentence in sentences]

    @rounds
    @given(content=st.binary(max_size=200) | st.lists(tricky).map("".join).map(str.encode), skip=st.booleans())
    @pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.jsonl", "p.txt"])
    def test_any_bytes_are_read_or_refused(self, directory: Path, name: str, content: bytes, skip: bool) -> None:
        path = directory / name
        start = b"" if name in ("p.jsonl", "p.txt") else LINES[name[2:]][0].encode()
        path.write_bytes(start + content)
        bad: list[PairsError] = []
        try:
            for record in read_pairs([str(path)], on_bad=bad.append if skip else None):
                assert record.where.startswith(f"{path}:")
        except PairsError as error:
            bad.append(error)
        assert all(len(str(error).splitlines()) == 1 and str(path) in str(error) for error in bad)


class TestDamage:
    """A file that is cut or changed at any byte is refused in one line, or nothing is lost."""

    TABLE: ClassVar = [(f"sentence {number}, the first", f"and {number} more") for number in range(12)]

    def outcome(self, path: Path, content: bytes) -> list[tuple[str, str | None]] | PairsError:
        path.write_bytes(content)
        try:
            return [(pair.a, pair.b) for pair in pairs_in(str(path))]
        except PairsError as error:
            assert str(path) in str(error)
            assert len(str(error).splitlines()) == 1
            return error

    def test_gzip(self, tmp_path: Path) -> None:
        path, whole = tmp_path / "p.csv.gz", gzipped(as_csv(self.TABLE).encode())
        assert self.outcome(path, whole) == self.TABLE
        for length in range(len(whole)):
            assert isinstance(self.outcome(path, whole[:length]), PairsError), length
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= 0x55
            outcome = self.outcome(path, bytes(changed))
            assert isinstance(outcome, PairsError) or outcome == self.TABLE, place

    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_parquet(self, tmp_path: Path, codec: str) -> None:
        columns = dict(zip(["sentence_a", "sentence_b"], map(list, zip(*self.TABLE, strict=True)), strict=True))
        path, whole = tmp_path / "p.parquet", parquet(columns, compression=codec, write_page_checksum=True)
        assert self.outcome(path, whole) == self.TABLE
        for length in range(len(whole)):
            assert isinstance(self.outcome(path, whole[:length]), PairsError), length
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            outcome = self.outcome(path, bytes(changed))
            assert isinstance(outcome, PairsError) or outcome == self.TABLE, place


class TestStream:
    COUNTS: ClassVar = {"p.tsv": 200_000, "p.csv": 30_000, "p.txt.gz": 30_000, "p.jsonl": 30_000}
    LINE = "the cat sat number {0}\tthe dog ran number {0}\n"

    @pytest.fixture(scope="class")
    def long(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The same pairs in four forms."""
        directory = tmp_path_factory.mktemp("long")
        lines = {name: [self.LINE.format(number) for number in range(count)] for name, count in self.COUNTS.items()}
        (directory / "p.tsv").write_text("text_a\ttext_b\n" + "".join(lines["p.tsv"]))
        (directory / "p.csv").write_text("text_a,text_b\n" + "".join(lines["p.csv"]).replace("\t", ","))
        (directory / "p.txt.gz").write_bytes(gzipped("".join(lines["p.txt.gz"]).encode()))
        (directory / "p.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines["p.jsonl"]))
        return directory

    @pytest.mark.parametrize("name", COUNTS)
    def test_memory_does_not_grow_with_the_file(self, long: Path, name: str) -> None:
        tracemalloc.start()
        count = sum(1 for _ in read_pairs([str(long / name)]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == self.COUNTS[name]
        assert peak < 1 << 20

    def test_no_more_is_read_than_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Endless(io.BufferedIOBase):
            lines = 0

            def readline(self, _: int | None = -1) -> bytes:
                self.lines += 1
                return b"text\n" if self.lines == 1 else b"sentence\n"

        endless, stdin = Endless(), Stdin(b"")
        stdin.buffer = endless  # type: ignore[assignment]
        monkeypatch.setattr(sys, "stdin", stdin)
        reading = read_pairs(["-"])
        assert endless.lines == 0
        for asked in range(1, 50):
            next(reading)
            assert endless.lines == asked + 1

    def test_a_file_is_closed_when_reading_stops(self, make: Make, recwarn: pytest.WarningsRecorder) -> None:
        reading = read_pairs([make("p.csv.gz", HEADER + "a,b\n" * 9)])
        next(reading)
        del reading
        assert not [warning for warning in recwarn if warning.category is ResourceWarning]


PEAK = """
import re, sys
from pathlib import Path
from attnscan.errors import PairsError
from attnscan.pairs import read_pairs

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) >> 10

for path in sys.argv[1:]:
    before, bad, good = peak(), [], 0
    try:
        for _ in read_pairs([path], on_bad=bad.append):
            good += 1
    except PairsError as error:
        bad.append(error)
    print(Path(path).name, peak() - before, good, len(bad), sep="|")
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_small_file_cannot_take_much_memory(tmp_path: Path) -> None:
    long = b"x" * (8 << 20)
    with gzip.open(tmp_path / "line.txt.gz", "wb", compresslevel=1) as packed:
        for _ in range(16):
            packed.write(long)
        packed.write(b"\nshort\n")
    with gzip.open(tmp_path / "quote.csv.gz", "wb", compresslevel=1) as packed:
        packed.write(HEADER.encode() + b'"\n' + b"\n" * (2 << 20))
    repeated = pa.array(["x" * (1 << 18)] * 800)
    pq.write_table(pa.table({"text": repeated}), tmp_path / "cell.parquet", compression="zstd")
    paths = [tmp_path / name for name in ("quote.csv.gz", "line.txt.gz", "cell.parquet")]  # the peak only rises
    assert all(path.stat().st_size < 2 << 20 for path in paths)
    done = subprocess.run([sys.executable, "-c", PEAK, *map(str, paths)], capture_output=True, text=True, check=True)
    results = [line.split("|") for line in done.stdout.splitlines()]
    assert [(name, good, bad) for name, _, good, bad in results] == [
        ("quote.csv.gz", "0", "1"),
        ("line.txt.gz", "1", "1"),
        ("cell.parquet", "800", "0"),
    ]
    for (_, mebibytes, *_), bound in zip(results, (40, 80, 110), strict=True):
        assert int(mebibytes) < bound, results


def test_reading_text_needs_neither_pandas_nor_pyarrow(make: Make) -> None:
    script = (
        "import sys\nfrom attnscan.pairs import read_pairs, shipped_pairs\n"
        "print(len(list(read_pairs(sys.argv[1:]))), len(list(shipped_pairs())) > 9)\n"
        "print(sorted({'pandas', 'pyarrow', 'numpy', 'torch', 'transformers', 'pickle'} & set(sys.modules)))\n"
    )
    path = make("p.csv.gz", HEADER + "a,b\n")
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n[]\n"


class TestPair:
    def test_sentences(self) -> None:
        assert Pair("a").sentences == ("a",)
        assert Pair("a", "b").sentences == ("a", "b")

    @pytest.mark.parametrize(
        ("sentences", "why"),
        [
            (("",), "sentence A is empty"),
            ((" \n",), "sentence A is empty"),
            (("a", ""), "sentence B is empty"),
            (("a", "b\ud800"), "sentence B is not valid Unicode: its character 2"),
        ],
    )
    def test_refused(self, sentences: tuple[str, ...], why: str) -> None:
        with pytest.raises(InputError, match=why):
            Pair(*sentences)


def words(sentence: str) -> set[str]:
    """Simple words: letters and digits between white space and punctuation."""
    return set("".join(c if c.isalnum() else " " for c in sentence.lower()).split())


class TestShipped:
    RECORDS: ClassVar = list(shipped_pairs())

    def test_both_copies_are_equal(self) -> None:
        copies = [(ROOT / place / "pairs.csv").read_bytes() for place in ("attnscan/data", "examples")]
        assert copies[0] == copies[1]
        assert pairs_in(str(ROOT / "examples" / "pairs.csv")) == [record.pair for record in self.RECORDS]

    def test_they_are_about_a_hundred_pairs_of_clean_text(self) -> None:
        pairs = [record.pair for record in self.RECORDS]
        assert 90 <= len(set(pairs)) == len(pairs) <= 120
        for pair in pairs:
            assert len(pair.sentences) == 2
            assert all(s.isascii() and s.isprintable() and s == s.strip() for s in pair.sentences)

    def test_where(self) -> None:
        assert self.RECORDS[0].where == "attnscan/data/pairs.csv:2"
        assert self.RECORDS[-1].where == f"attnscan/data/pairs.csv:{len(self.RECORDS) + 1}"

    def test_they_give_every_pattern_something_to_find(self) -> None:
        pairs = [record.pair for record in self.RECORDS]
        lengths = [sorted(len(sentence.split()) for sentence in pair.sentences) for pair in pairs]
        shared = [words(pair.a) & words(pair.b or "") for pair in pairs]
        assert sum(map(bool, shared)) >= 60
        assert sum(any(len(word) > 3 for word in some) for some in shared) >= 60
        assert sum(not some for some in shared) >= 5
        assert sum(shortest <= 4 for shortest, _ in lengths) >= 15
        assert sum(longest >= 25 for _, longest in lengths) >= 15
        assert max(longest for _, longest in lengths) <= 45

    def test_they_have_every_kind_of_punctuation(self) -> None:
        everything = "".join(sentence for record in self.RECORDS for sentence in record.pair.sentences)
        assert set(".,;:!?'\"()-/&$+") <= set(everything)
        assert any(c.isdigit() for c in everything)


def test_the_wikipedia_pairs(shared: Path) -> None:
    path = shared / "text" / "wikitext2-pairs.tsv"
    lines = path.read_text(encoding="utf-8").split("\n")[1:-1]
    assert [f"{pair.a}\t{pair.b}" for pair in pairs_in(str(path))] == lines
    assert len(lines) == 447
    assert sum(line.count('"') % 2 for line in lines) > 0


def test_the_order_of_lines_does_not_matter_for_what_is_bad(make: Make) -> None:
    """Skipping, line by line: the same good pairs and as many bad ones, however the lines are mixed."""
    lines = ["a,b", "c,d", "e,f", "x", "x,y,z", ",", '"q"q,r', "\0,1"]
    chance = random.Random(3)
    for _ in range(50):
        chance.shuffle(lines)
        good, bad = skipping(make("p.csv", HEADER + "\n".join(lines)))
        assert sorted(record.pair.a for record in good) == ["a", "c", "e"]
        assert len(bad) == 5


def test_about_how_many_pairs_there_are_is_known_where_it_is_cheap(tmp_path: Path) -> None:
    text, packed = tmp_path / "pairs.csv", tmp_path / "pairs.csv.gz"
    text.write_text("text\n" + "the cat\n" * 500)
    packed.write_bytes(gzipped(text.read_bytes()))
    assert about_how_many([str(text)]) == 501
    assert about_how_many([str(text), str(packed)]) is None
    assert about_how_many(["-"]) is None
    assert about_how_many([]) == len(list(shipped_pairs()))


class TestLabels:
    """A column `label`, for those who ask."""

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", "label,sentence1,sentence2\nyes,a,b\n,c,d\n"),
            ("a.tsv", "sentence1\tsentence2\tLabel\na\tb\tyes\nc\td\t\n"),
            (
                "a.jsonl",
                '{"sentence1":"a","sentence2":"b","label":"yes"}\n{"sentence1":"c","sentence2":"d","label":""}\n',
            ),
        ],
    )
    def test_are_read_beside_the_sentences(self, tmp_path: Path, name: str, content: str) -> None:
        path = tmp_path / name
        path.write_text(content)
        records = list(read_pairs([str(path)], labelled=True))
        assert [(record.pair, record.label) for record in records] == [(Pair("a", "b"), "yes"), (Pair("c", "d"), "")]
        assert [record.label for record in read_pairs([str(path)])] == [None, None]

    def test_of_parquet_may_be_numbers(self, tmp_path: Path) -> None:
        import pandas as pd

        path = tmp_path / "a.parquet"
        pd.DataFrame({"text": ["a", "b"], "label": [1, -1]}).to_parquet(path)
        records = list(read_pairs([str(path)], labelled=True))
        assert [(record.pair, record.label) for record in records] == [(Pair("a"), "1"), (Pair("b"), "-1")]

    def test_are_none_where_there_is_no_such_column_or_it_holds_the_sentences(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("text,other\na,b\n")
        (tmp_path / "b.csv").write_text("text,label\na,b\n")
        for name, columns in (("a.csv", None), ("b.csv", ["label"])):
            (record,) = read_pairs([str(tmp_path / name)], columns, labelled=True)
            assert record.label is None

    def test_a_file_without_follows_one_with(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("text,label\na,x\n")
        (tmp_path / "b.csv").write_text("text\nb\n")
        paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
        assert [record.label for record in read_pairs(paths, labelled=True)] == ["x", None]
