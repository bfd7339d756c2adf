"""Which columns hold sentences; a bad record is named by file and line, and costs no other."""

import io
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pyarrow as pa
import pytest
from support.pair_files import (
    AB,
    CD,
    EF,
    HEADER,
    LINES,
    Make,
    gzipped,
    pairs_in,
    parquet,
    refusal,
    skipping,
)

from attnscan.errors import PairsError
from attnscan.inputs.read import (
    RANDOM,
    RANDOM_SEQUENCES,
    about_how_many,
    random_pairs,
    read_pairs,
    shipped_pairs,
)
from attnscan.inputs.records import KNOWN_COLUMNS, FileReading
from attnscan.inputs.report import collect_reports
from attnscan.inputs.sentence import Pair

ROOT = Path(__file__).parents[2]


class TestColumns:
    @pytest.mark.parametrize("columns", KNOWN_COLUMNS, ids="/".join)
    def test_the_usual_names(self, make: Make, columns: Sequence[str]) -> None:
        names = ["id", *(f" {name.upper()} " for name in reversed(columns)), "label"]
        cells = ["7", *reversed(["a", "b"][: len(columns)]), "yes"]
        path = make("p.csv", f"{','.join(names)}\n{','.join(cells)}\n")
        assert pairs_in(path) == [Pair(*["a", "b"][: len(columns)])]

    @pytest.mark.parametrize(
        ("header", "columns", "pair"),
        [
            ("sentence_b,sentence_a,text", None, Pair("2", "1")),
            ("premise,sentence1,sentence2", None, Pair("2", "3")),
            ("x,y,z", ["x", "z"], Pair("1", "3")),
            ("x,y,z", ["3", "1"], Pair("3", "1")),
            (" X ,y,z", ["x", "Y "], Pair("1", "2")),
            ("Text,text,z", ["text", "Text"], Pair("2", "1")),
            ("x,x,z", ["2", "1"], Pair("2", "1")),
            ("sentence_a,sentence_b,z", ["z"], Pair("3")),
            ("Straße,y,z", ["STRASSE"], Pair("1")),
        ],
    )
    def test_named(self, make: Make, header: str, columns: list[str] | None, pair: Pair) -> None:
        assert pairs_in(make("p.csv", f"{header}\n1,2,3\n"), columns=columns) == [pair]
        assert pairs_in(
            make("p.tsv", f"{header}\n1,2,3\n".replace(",", "\t")), columns=columns
        ) == [pair]
        table = pa.table([["1"], ["2"], ["3"]], header.split(","))
        assert pairs_in(make("p.pq", parquet(table)), columns=columns) == [pair]

    def test_the_first_json_record_that_fits_decides(self, make: Make) -> None:
        records = '{"Premise": "a", "Hypothesis": "b"}\n{"Premise": "c"}\n{"premise": "e"}'
        good, bad = skipping(make("p.jsonl", records))
        assert [record.pair for record in good] == [AB]
        assert bad == ["p.jsonl:2: sentence B is missing", "p.jsonl:3: sentence A is missing"]
        assert pairs_in(make("q.jsonl", '{"premise": "x"}\n'), columns=["premise"]) == [Pair("x")]
        assert "the columns are 'x', 'y'" in refusal(make("r.jsonl", '{"x": "1", "y": "2"}\n')).what
        assert "the columns are none" in refusal(make("s.jsonl", "{}\n")).what

    def test_labels_and_ids_beside_the_sentences(self, make: Make) -> None:
        table = make("a.csv", "label,sentence1,sentence2\nyes,a,b\n,c,d\n")
        other = make("b.csv", "text,no\ne,f\n")
        assert [r.label for r in read_pairs([table, other], FileReading(labelled=True))] == [
            "yes",
            "",
            None,
        ]
        assert [r.label for r in read_pairs([table])] == [None, None]
        assert [r.place.id for r in read_pairs([table], FileReading(id="1"))] == ["yes", ""]
        numbers = make("c.parquet", parquet({" Text ": ["a", "b"], "label": [1, -1]}))
        assert [r.label for r in read_pairs([numbers], FileReading(labelled=True))] == ["1", "-1"]

    @pytest.mark.parametrize(
        ("group", "expected"),
        [
            (None, ["news", ""]),
            ("Source", ["x", "y"]),
            ("4", ["x", "y"]),
            ("file", ["the file"] * 2),
        ],
    )
    def test_groups_are_a_column_or_the_files(
        self, make: Make, group: str | None, expected: list[str]
    ) -> None:
        path = make("a.csv", "sentence1,sentence2,Genre,source\na,b,news,x\nc,d,,y\n")
        records = list(read_pairs([path], FileReading(group=group)))
        names = [str(record.place.group).replace(path, "the file") for record in records]
        assert names == expected

    def test_pairs_without_a_column_of_groups_are_in_none(self, make: Make) -> None:
        path = make("a.csv", "text,topic\na,b\n")
        (record,) = read_pairs([path])
        assert record.place.group is None and record.key == record.pair.key
        with pytest.raises(PairsError, match="there is no column 'genre'"):
            list(read_pairs([path], FileReading(group="genre")))

    def test_the_same_pair_of_another_group_is_another_record(self, make: Make) -> None:
        path = make("a.csv", "text,genre\na,news\na,mail\na,news\n")
        one, other, again = read_pairs([path])
        assert one.key == again.key != other.key and one.pair == other.pair


def book(*rows: Sequence[object]) -> bytes:
    """A workbook with these rows, and before them a chart, which Excel puts there."""
    made = openpyxl.Workbook()
    made.create_chartsheet(index=0)
    for row in rows:
        made.worksheets[0].append(row)
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


BAD = {
    "csv": [
        ("one field", "c", "its number of fields is 1"),
        ("white space", "c,\u3000\xa0", "sentence B is empty"),
        (
            "not UTF-8",
            "éé".encode() + b",d\xff",
            "sentence B is not valid Unicode: its character 2 is a byte",
        ),
        ("NUL", "c,d\0", "sentence B has a NUL character"),
        ("text after a quote", '"c"x,d', "is not valid CSV: ',' expected"),
    ],
    "tsv": [
        ("three fields", "c\td\te", "its number of fields is 3"),
        ("neither UTF-8 nor Windows-1252", b"c\t\x81", "sentence B is not valid Unicode"),
    ],
    "jsonl": [
        (
            "half a pair",
            '{"sentence_a": "c", "sentence_b": "d\\ud800"}',
            "sentence B is not valid Unicode",
        ),
        (
            "broken",
            '{"sentence_a": "c", "sentence_b": "d"',
            "is not valid JSON: Expecting ',' delimiter: line 2",
        ),
        (
            "two objects",
            '{"sentence_a": "c"} {}',
            "is not valid JSON: Extra data: line 1 column 21",
        ),
        ("deep", "[" * 200_000, "is not valid JSON: maximum recursion depth"),
        ("digits", '{"sentence_a": ' + "1" * 5000 + "}", "is not valid JSON: Exceeds the limit"),
    ],
}
CASES = []
for _form, _cases in BAD.items():
    for _name, *_case in _cases:
        CASES.append(pytest.param(_form, *_case, id=f"{_form}, {_name}"))


class TestBadRecords:
    @pytest.mark.parametrize(("form", "line", "why"), CASES)
    def test_named_or_left_out(self, make: Make, form: str, line: str | bytes, why: str) -> None:
        data = line.encode() if isinstance(line, str) else line
        start, good, last = LINES[form]
        path = make(f"p.{form}", f"{start}{good}".encode() + data + f"\n{last}".encode())
        reading = read_pairs([path])
        assert next(reading).pair == AB
        with pytest.raises(PairsError) as caught:
            next(reading)
        assert caught.value.what.startswith(f"{path}:3: {why}")
        assert "``skip_bad``" in caught.value.remedy and len(str(caught.value)) < len(path) + 250
        records, bad = skipping(path)
        assert [(r.pair, r.where) for r in records] == [(AB, f"{path}:2"), (EF, f"{path}:4")]
        assert len(bad) == 1 and bad[0].startswith(f"p.{form}:3: {why}")

    def test_an_open_quote_costs_the_lines_up_to_the_next(self, make: Make) -> None:
        good, bad = skipping(
            make("p.csv", HEADER + 'a,b\n"x,y\nc,d\n"e",f\n\n"multi\nline",z\n"g,h\n')
        )
        assert [(record.pair, record.where[-2:]) for record in good] == [
            (AB, ":2"),
            (Pair("multi\nline", "z"), ":7"),
        ]
        assert bad == [
            "p.csv:3: is not valid CSV: ',' expected after '\"' (up to line 5)",
            "p.csv:9: is not valid CSV: unexpected end of data",
        ]

    @pytest.mark.parametrize(
        ("name", "content", "good", "bad"),
        [
            (
                "p.json",
                '[{"text": "a"}, {}, {"text": null}, 5, {"text": "c"}]',
                [(Pair("a"), 1), (Pair("c"), 5)],
                {
                    2: "sentence A is missing",
                    3: "sentence A is missing",
                    4: "it is no text, list or object",
                },
            ),
            (  # columns, which are joined by their keys
                "p.json",
                '{"text1": {"0": "a", "1": "x", "3": "c"}, '
                '"text2": {"3": "d", "2": "y", "0": "b"}}',
                [(AB, 1), (CD, 3)],
                {2: "sentence B is missing", 4: "sentence A is missing"},
            ),
            ("p.json", "5", [], {1: "it is no text, list or object"}),
            ("p.parquet", parquet({"text": pa.nulls(1)}), [], {1: "sentence A is missing"}),
            (
                "p.parquet",
                parquet({"text": [{"de": "a"}]}),
                [],
                {1: "sentence A is of the class dict, and not text"},
            ),
            (
                "p.xlsx",
                book(["text1", "text2"], ["a", 5], ["a"], ["a", "b"]),
                [(AB, 3)],
                {2: "sentence B is of the class int, and not text", 3: "sentence B is missing"},
            ),
        ],
    )
    def test_of_documents_tables_and_sheets(
        self,
        make: Make,
        name: str,
        content: str | bytes,
        good: list[tuple[Pair, int]],
        bad: dict[int, str],
    ) -> None:
        records, errors = skipping(make(name, content))
        assert [(record.pair, record.place.row) for record in records] == good
        counted = "record" if name == "p.json" else "row"
        assert errors == [f"{name}: {counted} {number}: {why}" for number, why in bad.items()]


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ('[{"text1": "a", "text2": "b"}, {"text2": "d", "text1": "c"}]', [AB, CD]),
        ('\ufeff [ {"text1": "a", "text2": "b"} ] \n', [AB]),
        ('[["a", "b"], ["c", "d"]]', [AB, CD]),
        ('["a", "c"]', [Pair("a"), Pair("c")]),
        ('{"text1": "a",\n "text2": "b"}', [AB]),
        ('\ufeff{"text1": "a", "text2": "b"}\n\n{"text1": "c", "text2": "d"}', [AB, CD]),
        ('{"text1": ["a", "c"], "text2": ["b", "d"]}', [AB, CD]),
        ('{"text1": {"0": "a", "1": "c"}, "text2": {"1": "d", "0": "b"}}', [AB, CD]),
        ('{"n": 1, "rows": [{"text": "a"}]}', [Pair("a")]),
        ("[]", []),
        ("", []),
    ],
)
def test_every_layout_of_json(make: Make, content: str, pairs: list[Pair]) -> None:
    assert pairs_in(make("p.json", content)) == pairs


NO_NAMES = "its first line must name the columns"


@pytest.mark.parametrize(
    ("name", "content", "columns", "why", "remedy"),
    [
        *(
            ("p.csv", f"{header}\n", columns, why, "--columns")
            for header, columns, why in (
                (
                    "id,premise,label",
                    None,
                    "the columns are 'id', 'premise', 'label', and none is known",
                ),
                (
                    "sentence_a|sentence_b",
                    None,
                    "the only column is 'sentence_a|sentence_b', as if another separator",
                ),
                ("x,y", ["z"], "there is no column 'z'; the columns are 'x', 'y'"),
                ("x,y", ["x", "3"], "there is no column '3'"),
                ("x,y", ["²"], "there is no column '²'"),
                ("x,y", ["9" * 5000], "there is no column"),
                ("X,x ", ["x"], "2 columns are called 'x'"),
                ("TEXT,Text,x", None, "2 columns are called 'text'"),
            )
        ),
        ("p.csv", "x,y\n", [], "0 columns were named", "name one, or two for pairs"),
        ("p.csv", "x,y\n", ["x", "y", "x"], "3 columns were named", "name one, or two for pairs"),
        ("p.csv", b"\xef\xbb\xbf\n \n", None, "is empty", NO_NAMES),
        ("p.csv", b'"text\na\n', None, "unexpected end of data", NO_NAMES),
        (
            "p.csv",
            "text\na\n".encode("utf-16") + b"x",
            None,
            "truncated data",
            "save it as UTF-8, or pass --encoding",
        ),
        (
            "p.json",
            '["a", "b"',
            None,
            "not valid JSON: Expecting ',' delimiter: line 1 column 10",
            "a list of records",
        ),
        (
            "p.json",
            "[" * 40_000,
            None,
            "is not valid JSON: maximum recursion depth",
            "a list of records",
        ),
        ("p.parquet", b"PAR1" * 10, None, "is not a valid .parquet file", ""),
        ("p.xlsx", book(), None, "is empty", NO_NAMES),
        ("p.xlsx", book(["text"], ["a"])[:-30], None, "not a valid .xlsx file", ""),
    ],
)
def test_a_file_is_refused_before_its_first_pair(
    make: Make, name: str, content: str | bytes, columns: list[str] | None, why: str, remedy: str
) -> None:
    path = make(name, content)
    for skip in (False, True):
        error = refusal(path, columns=columns, skip=skip)
        assert why in error.what and remedy in error.line and len(str(error)) < 400
        assert error.what.startswith(path) is ("were named" not in why)


@pytest.mark.parametrize(
    ("package", "name", "content", "extra"),
    [
        ("python_calamine", "p.xlsx", book(["text"], ["a"]), "excel"),
        ("pyarrow", "p.parquet", parquet({"text": ["a"]}), "parquet"),
    ],
)
def test_packages_of_tables_are_an_extra(
    make: Make, monkeypatch: pytest.MonkeyPatch, package: str, name: str, content: bytes, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert refusal(make(name, content)).remedy == f"run: pip install 'attnscan[{extra}]'"


class TestStdin:
    @pytest.mark.parametrize(
        "content",
        [
            "\ufeff" + HEADER + "a,b\nc,d\n",
            "\ufeff\r\nsentence1\tsentence2\r\na\tb\r\nc\td",
            '{"sentence_a": "a", "sentence_b": "b"}\n{"sentence_a": "c", "sentence_b": "d"}\n',
            '[{"sentence_a": "a", "sentence_b": "b"},\n{"sentence_a": "c", "sentence_b": "d"}]\n',
        ],
    )
    def test_the_first_line_tells_the_format(
        self, monkeypatch: pytest.MonkeyPatch, content: str
    ) -> None:
        stdin = io.TextIOWrapper(io.BytesIO(content.encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert pairs_in("-") == [AB, CD]
        assert not stdin.buffer.closed

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"\n\n", "standard input is empty"),
            (parquet({"text": ["a"]}), "standard input is no text"),
            (b'{"text": }\n', "standard input:1: is not valid JSON"),
            (b"a,b,c\nd,e,f\n", "; if its first line is data, pass --no-header"),
            (None, "standard input is closed; pipe pairs into it"),
        ],
    )
    def test_refused(
        self, monkeypatch: pytest.MonkeyPatch, content: bytes | None, why: str
    ) -> None:
        monkeypatch.setattr(
            sys, "stdin", None if content is None else io.TextIOWrapper(io.BytesIO(content))
        )
        assert why in refusal("-").line

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_read_like_it(self, tmp_path: Path) -> None:
        """What a shell's <(zcat pairs.tsv.gz) is: a pipe whose name has no suffix."""
        pipe = tmp_path / "63"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=("text_a\ttext_b\na\tb\n",))
        writer.start()
        assert pairs_in(str(pipe)) == [AB]
        writer.join()


def test_about_how_many_pairs_there_are_is_known_where_it_is_cheap(tmp_path: Path) -> None:
    text = tmp_path / "pairs.csv"
    packed = tmp_path / "pairs.csv.gz"
    lines = tmp_path / "p.jsonl"
    text.write_text("text\n" + "the cat\n" * 500)
    packed.write_bytes(gzipped(text.read_bytes()))
    lines.write_text('{"text": "a"}\n{"text": "b"}')
    assert (
        about_how_many([str(text), str(lines)])
        == about_how_many([f"{tmp_path}/*.[cj]s*[vl]"])
        == 503
    )
    assert about_how_many([str(text), str(packed)]) is None
    assert (
        about_how_many(["-"])
        is about_how_many([str(tmp_path)])
        is about_how_many(["https://host/a.csv"])
        is None
    )


class TestShipped:
    def test_shipped_pairs_know_their_places(self) -> None:
        records = list(shipped_pairs())
        assert len(records) == 336
        assert records[0].where == "attnscan/inputs/data/pairs.csv:2"
        assert [record.place.row for record in records] == list(range(1, 337))

    def test_random_words_stand_twice_behind_a_stop(self) -> None:
        records = list(random_pairs())
        assert len(records) == RANDOM_SEQUENCES
        for number, record in enumerate(records, 1):
            stop, *words = record.pair.a.split()
            assert stop == "."
            assert words[:25] == words[25:]
            assert len(set(words)) == 25
            assert all(word.isalpha() and word.islower() for word in words)
            assert (record.place.row, record.place.file) == (number, RANDOM)
            assert record.where == f"{RANDOM}: sequence {number}"

    def test_random_words_depend_on_the_seed_alone(self) -> None:
        first = [record.pair for record in random_pairs()]
        assert first == [record.pair for record in random_pairs(0)]
        assert first != [record.pair for record in random_pairs(1)]


@pytest.mark.parametrize(
    ("header", "columns", "why"),
    [
        ("premise,hypothesis", None, "known names"),
        ("x", None, "the only column"),
        ("x,y", ["y"], "named by --columns"),
    ],
)
def test_a_report_says_why_columns_are_read(
    make: Make, header: str, columns: tuple[str, ...] | None, why: str
) -> None:
    with collect_reports() as reports:
        list(read_pairs([make("p.csv", f"{header}\n{header}\n")], FileReading(columns)))
    assert [report.why for report in reports] == [why]


@pytest.mark.parametrize(
    ("codec", "asked_for", "said"),
    [
        ("utf-8", None, "UTF-8"),
        ("utf-8-sig", None, "UTF-8"),
        ("utf-16", None, "UTF-16"),
        ("cp1252", None, "Windows-1252"),
        ("cp1252", "cp1252", "cp1252"),
        ("utf-8", "utf-8", "UTF-8"),
    ],
)
def test_a_report_says_the_encoding(
    make: Make, codec: str, asked_for: str | None, said: str
) -> None:
    path = make("p.csv", "text\nGröße\n".encode(codec))
    with collect_reports() as reports:
        assert [r.pair.a for r in read_pairs([path], FileReading(encoding=asked_for))] == ["Größe"]
    assert reports[0].encoding == said


def test_two_columns_without_names_are_the_only_ones(make: Make) -> None:
    with collect_reports() as reports:
        path = make("p.csv", "The cat sat on the mat.,A cat sat.\n")
        assert pairs_in(path) == [Pair("The cat sat on the mat.", "A cat sat.")]
    assert (reports[0].why, reports[0].first_line) == ("the only columns", "data")


def test_reports_are_collected_while_they_are_asked_for(make: Make) -> None:
    path = make("p.tsv", "text\na\n")
    with collect_reports() as reports:
        pairs_in(path)
        pairs_in(path)
    pairs_in(path)
    assert [(report.file, report.separator) for report in reports] == [(path, "\t")] * 2


def test_more_than_twenty_columns_are_not_all_listed(make: Make) -> None:
    for count in (20, 21):
        names = ",".join(f"x{number}" for number in range(count))
        listed = ", ".join(f"'x{number}'" for number in range(20)) + ", …" * (count > 20)
        assert f"the columns are {listed}, and none" in refusal(make("p.csv", f"{names}\n")).what


@pytest.mark.parametrize(
    "content",
    [
        '{"columns": ["text"], "data": [["a", "b"]]}',
        '{"columns": ["text"], "data": ["a"]}',
        '{"columns": "text", "data": [["a"]]}',
    ],
)
def test_rows_that_do_not_fit_their_columns_are_refused(make: Make, content: str) -> None:
    assert "p.json: its columns are" in refusal(make("p.json", content)).what


def test_an_open_quote_takes_no_more_than_16_mib(make: Make) -> None:
    cells = ["x" * ((16 << 20) - 1), "x" * ((16 << 20) + 1)]
    good, bad = skipping(make("p.csv", f'text,n\n"{cells[0]}",1\n"{cells[1]}",2\n'))
    assert [len(record.pair.a) for record in good] == [len(cells[0])]
    assert bad == ["p.csv:3: is not valid CSV: field larger than field limit (16777216)"]
