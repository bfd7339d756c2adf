"""Which columns hold sentences; a bad record is named by file and line, and costs no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pair_files import AB, CD, EF, HEADER, LINES, Make, Stdin, gzipped, pairs_in, parquet, refusal, skipping

from attnscan.errors import PairsError
from attnscan.inputs import read as lines
from attnscan.inputs.read import COLUMNS, FileReading, about_how_many, read_pairs, shipped_pairs
from attnscan.inputs.sentence import Pair

ROOT = Path(__file__).parents[2]


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

    @pytest.mark.parametrize(
        ("header", "cells", "pair"),
        [
            ("text,sentence_b,sentence_a", "x,b,a", AB),
            ("premise,sentence1,sentence2,hypothesis", "x,a,b,y", AB),
            ("sentence,question", "b,a", AB),
            ("sentence,text", "b,a", Pair("a")),
            ("anything", "a", Pair("a")),
        ],
    )
    def test_which_comes_first(self, make: Make, header: str, cells: str, pair: Pair) -> None:
        assert pairs_in(make("p.csv", f"{header}\n{cells}\n")) == [pair]

    @pytest.mark.parametrize(
        ("header", "columns", "pair"),
        [
            ("x,y,z", ["x", "z"], Pair("1", "3")),
            ("x,y,z", ["y"], Pair("2")),
            ("x,y,z", ["3", "1"], Pair("3", "1")),
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
            ("sentence_a|sentence_b", None, "the only column is 'sentence_a|sentence_b', as if another separator"),
            ("x,y", ["z"], "there is no column 'z'; the columns are 'x', 'y'"),
            ("x,y", ["x", "3"], "there is no column '3'"),
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
        ("white space", "c,\u3000\xa0", "sentence B is empty"),
        ("not UTF-8", "éé".encode() + b",d\xff", "sentence B is not valid Unicode: its character 2 is a byte"),
        ("NUL", "c,d\0", "sentence B has a NUL character"),
        ("text after a quote", '"c"x,d', "is not valid CSV: ',' expected"),
        ("an open quote", '"c,d', "is not valid CSV: unexpected end"),
        ("a lone carriage return", "c\rx,d", "is not valid CSV: new-line character"),
    ],
    "tsv": [
        ("one field", "c", "its number of fields is 1"),
        ("not UTF-8", "éé".encode() + b"\t\xe9t", "sentence B is not valid Unicode"),
        ("neither UTF-8 nor Windows-1252", b"c\t\x81", "sentence B is not valid Unicode"),
        ("NUL", "c\0\td", "sentence A has a NUL character"),
    ],
    "jsonl": [
        ("no field", '{"sentence_a": "c"}', "has no field 'sentence_b'"),
        ("null", '{"sentence_a": "c", "sentence_b": null}', "sentence B is missing"),
        ("a number", '{"sentence_a": 1, "sentence_b": "d"}', "sentence A is not text"),
        ("a list", '{"sentence_a": ["c"], "sentence_b": "d"}', "sentence A is not text"),
        ("blank", '{"sentence_a": "c", "sentence_b": " \\n"}', "sentence B is empty"),
        ("half a pair", '{"sentence_a": "c", "sentence_b": "d\\ud800"}', "sentence B is not valid Unicode"),
        ("NUL", '{"sentence_a": "c\\u0000", "sentence_b": "d"}', "sentence A has a NUL"),
        (
            "a NUL byte",
            '{"sentence_a": "c\0", "sentence_b": "d"}',
            "is not valid JSON at character 18: Invalid control character",
        ),
        ("not UTF-8", '{"sentence_a": "éé'.encode() + b'\xff", "sentence_b": "d"}', "sentence A is not valid Unicode"),
        ("broken", '{"sentence_a": "c", "sentence_b": "d"', "is not valid JSON at character 39"),
        ("two objects", '{"sentence_a": "c"} {}', "is not valid JSON at character 21: Extra data"),
        ("an array", '["c", "d"]', "is not a JSON object"),
        ("deep", "[" * 200_000, "is nested too deeply"),
        ("digits", '{"sentence_a": ' + "1" * 5000 + "}", "has a number of more than 4,300 digits"),
    ],
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
        assert bad == ["p.csv:3: is not valid CSV: ',' expected after '\"'"]

    def test_bad_bytes_in_a_row_of_lines_are_of_that_row(self, make: Make) -> None:
        good, bad = skipping(make("p.csv", HEADER.encode() + b'"x\n\x81\ny",z\nc,d\n'))
        assert [record.pair for record in good] == [CD]
        assert bad == ["p.csv:2: sentence A is not valid Unicode: its character 3 is a byte that is not UTF-8"]

    def test_quotes_that_never_close_take_no_quadratic_time(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines, "_MAX_REREAD", 1 << 20)
        path = make("p.csv", HEADER + 'a",b,"\n' * 200_000 + "a,b")
        before = time.process_time()
        good, bad = skipping(path)
        assert time.process_time() - before < 10
        assert not good
        assert bad

    def test_in_parquet(self, make: Make) -> None:
        buffers = [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0])), pa.py_buffer(b"b\xff")]
        second = pa.concat_arrays([pa.Array.from_buffers(pa.string(), 2, buffers), pa.array([None, "f"])])
        good, bad = skipping(make("p.parquet", parquet({"sentence_a": ["a", "c", "d", "e"], "sentence_b": second})))
        assert [(r.pair, r.where[-5:]) for r in good] == [(AB, "row 1"), (EF, "row 4")]
        assert [said.partition(": ")[2].partition(":")[0] for said in bad] == ["row 2", "row 3"]
        assert "is not valid UTF-8" in bad[0] and "sentence B is missing" in bad[1]


class TestStdin:
    @pytest.mark.parametrize(
        "content",
        [
            HEADER + "a,b\nc,d\n",
            "\ufeff" + HEADER + "a,b\nc,d\n",
            "\ufeff\r\nsentence1\tsentence2\r\na\tb\r\nc\td",
            '{"sentence_a": "a", "sentence_b": "b"}\n{"sentence_a": "c", "sentence_b": "d"}\n',
        ],
    )
    def test_the_first_line_tells_the_format(self, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
        monkeypatch.setattr(sys, "stdin", Stdin(content.encode()))
        assert pairs_in("-") == [AB, CD]

    def test_where_and_it_is_left_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stdin = Stdin(b"\ntext\na\n\nb\n")
        monkeypatch.setattr(sys, "stdin", stdin)
        assert [record.where for record in read_pairs(["-"])] == ["standard input:3", "standard input:5"]
        assert not stdin.buffer.closed

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"\n\n", "standard input is empty"),
            (b"a\0b\n", "its first line has a NUL"),
            (parquet({"text": ["a"]}), "standard input is Parquet"),
            (b'{"text": }\n', "standard input:1: is not valid JSON"),
        ],
    )
    def test_refused(self, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str) -> None:
        monkeypatch.setattr(sys, "stdin", Stdin(content))
        assert why in refusal("-").what

    def test_closed_or_named_twice(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(PairsError, match="named twice"):
            read_pairs(["-", make("p.csv", HEADER), "-"])
        monkeypatch.setattr(sys, "stdin", None)
        assert "is closed" in refusal("-").what

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_read_like_it(self, tmp_path: Path) -> None:
        """What a shell's <(zcat pairs.tsv.gz) is: a pipe whose name has no suffix."""
        pipe = tmp_path / "63"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=("text_a\ttext_b\na\tb\n",))
        writer.start()
        assert pairs_in(str(pipe)) == [AB]
        writer.join()


class TestPair:
    def test_a_locale_without_the_character_is_what_to_change(self) -> None:
        """What a shell hands over is decoded by the locale before attnscan sees it."""
        surroundings = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
        script = "import sys; from attnscan.inputs.sentence import Pair; Pair(sys.argv[1])"
        command = [sys.executable, "-c", script, "the \U0001f600"]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1].endswith(
            "sentence A is not valid Unicode: its character 5 is not known to the locale, which is ascii; "
            "set LC_ALL=C.UTF-8 or PYTHONUTF8=1"
        )

    def test_the_key_says_where_sentences_end(self) -> None:
        """Its first digits number blocks of pairs in states on disk, so it must not change."""
        assert Pair("the cat").key == "675822dce541fb43946458d70cdc163c8ef1f8449dfecdb03fdc90bb80f7d15d"
        same = [Pair("the cat"), Pair("the cat", None)]
        others = [Pair("the", "cat"), Pair("the c", "at"), Pair("the cat ")]
        assert len({pair.key for pair in same}) == 1
        assert len({pair.key for pair in [*same, *others]}) == 4
        assert Pair("the cat").key_after("0") not in {Pair("the cat").key, Pair("0", "the cat").key_after("")}


class TestShipped:
    RECORDS: ClassVar = list(shipped_pairs())

    def test_both_copies_are_equal(self) -> None:
        copies = [(ROOT / place / "pairs.csv").read_bytes() for place in ("attnscan/inputs/data", "examples")]
        assert copies[0] == copies[1]
        assert pairs_in(str(ROOT / "examples" / "pairs.csv")) == [record.pair for record in self.RECORDS]


def test_about_how_many_pairs_there_are_is_known_where_it_is_cheap(tmp_path: Path) -> None:
    text, packed = tmp_path / "pairs.csv", tmp_path / "pairs.csv.gz"
    text.write_text("text\n" + "the cat\n" * 500)
    packed.write_bytes(gzipped(text.read_bytes()))
    assert about_how_many([str(text)]) == 500
    assert about_how_many([str(text), str(packed)]) is None
    assert about_how_many([f"{tmp_path}/*.csv"]) == 500
    assert about_how_many(["-"]) is about_how_many([str(tmp_path)]) is about_how_many(["https://host/a.csv"]) is None
    assert about_how_many([]) == len(list(shipped_pairs()))


@pytest.mark.parametrize(
    ("name", "content", "reading", "rows"),
    [
        ("p.csv", "sentence_a,sentence_b\na,b\nc,d", FileReading(), 2),
        ("p.csv", "sep=;\nsentence_a;sentence_b\na;b\n", FileReading(), 1),
        ("p.csv", "the cat sat on the mat.,b\nc,d\n", FileReading(), 2),
        ("p.csv", "a,b\nc,d\n", FileReading(header=False), 2),
        ("p.jsonl", '{"text": "a"}\n{"text": "b"}\n', FileReading(), 2),
    ],
)
def test_the_line_that_names_the_columns_is_no_pair(
    tmp_path: Path, name: str, content: str, reading: FileReading, rows: int
) -> None:
    (tmp_path / name).write_text(content, newline="")
    assert about_how_many([str(tmp_path / name)], reading) == rows


class TestLabels:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", "label,sentence1,sentence2\nyes,a,b\n,c,d\n"),
            ("a.tsv", "sentence1\tsentence2\tLabel\na\tb\tyes\nc\td\t\n"),
            ("a.parquet", parquet({"text": ["a", "b"], "label": [1, -1]})),
        ],
    )
    def test_are_read_beside_the_sentences(self, tmp_path: Path, name: str, content: str | bytes) -> None:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        records = list(read_pairs([str(path)], FileReading(labelled=True)))
        assert [(record.pair, record.label) for record in records] in (
            [(Pair("a", "b"), "yes"), (Pair("c", "d"), "")],
            [(Pair("a"), "1"), (Pair("b"), "-1")],
        )
        assert [record.label for record in read_pairs([str(path)])] == [None, None]

    def test_a_file_without_follows_one_with(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("text,label\na,x\n")
        (tmp_path / "b.csv").write_text("text\nb\n")
        paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
        assert [record.label for record in read_pairs(paths, FileReading(labelled=True))] == ["x", None]
