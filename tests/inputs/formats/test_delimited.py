"""CSV, TSV and text files are read as they were written, however their lines end and however they are compressed."""

from __future__ import annotations

import json

import pytest
from pair_files import AB, CD, HEADER, LINES, Make, pairs_in, parquet, skipping

from attnscan.inputs.pairs import Pair, about_how_many, read_pairs

X = "x" * (1 << 17)


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
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_two_pairs(make: Make, name: str, content: str | bytes, packed: str) -> None:
    assert pairs_in(make(name + packed, content)) == [AB, CD]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("p.txt", 'sentence, "one"\r\n\n \t\n two\tthree \n', [(('sentence, "one"',), 1), ((" two\tthree ",), 4)]),
        ("p.tsv", 'sentence1\tsentence2\n"a\tb"\n""c""\t"d\n', [(('"a', 'b"'), 2), (('""c""', '"d'), 3)]),
        (
            "p.csv",
            HEADER + '"a\r\n\r\nb","c ""d"", e"\n\n"f\ng",h\ni "j" k,l\n',
            [(("a\r\n\r\nb", 'c "d", e'), 2), (("f\ng", "h"), 6), (('i "j" k', "l"), 8)],
        ),
        ("p.jsonl", '\ufeff{"text": "a"}\r\n\r\n \t\n{"text": "c \\ud83d\\ude00"}\r\n', [(("a",), 1), (("c 😀",), 4)]),
        # characters that Python's str.splitlines takes for line ends
        *(
            (name, "text\na\x0bb\x0c\x1c\x85\u2028c\n", [(("a\x0bb\x0c\x1c\x85\u2028c",), 2)])
            for name in ("p.tsv", "p.csv")
        ),
        ("p.txt", "a\x0bb\x0c\x1c\x85\u2028c", [(("a\x0bb\x0c\x1c\x85\u2028c",), 1)]),
        # lone carriage returns
        ("p.jsonl", '{"text": "a"}\r\r{"text": "c"}\r', [(("a",), 1), (("c",), 3)]),
        ("p.json", '{"text": "a"}\r{"text": "c"}\r', [(("a",), 1), (("c",), 2)]),
        ("p.txt", f"a\rc\r{X}\re\r", [(("a",), 1), (("c",), 2), ((X,), 3), (("e",), 4)]),
        ("p.txt", "a\nb\nc\rd\n", [(("a",), 1), (("b",), 2), (("c\rd",), 3)]),
        ("p.txt", "a\rb\rc\rd\ne\r\nf", [(("a",), 1), (("b",), 2), (("c",), 3), (("d",), 4), (("e",), 5), (("f",), 6)]),
        ("p.tsv", 'text\r"a\rb', [(('"a',), 2), (("b",), 3)]),
        ("p.csv", 'text\r"a\nb"\r"c\rd"\re\r', [(("a\nb",), 2), (("c\rd",), 4), (("e",), 6)]),
        ("p.txt", f"{X}\r\nb\r\n", [((X,), 1), (("b",), 2)]),
    ],
)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_cells_and_lines(
    make: Make, name: str, content: str, expected: list[tuple[tuple[str, ...], int]], packed: str
) -> None:
    path = make(name + packed, content.encode())
    read = [(record.pair.texts, int(record.where.rpartition(":")[2].split()[-1])) for record in read_pairs([path])]
    assert read == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(("name", "separator"), [("p.csv", ","), ("p.tsv.gz", "\t"), ("p.txt", "\t")])
def test_line_ends_and_byte_order_marks(make: Make, end: str, mark: str, name: str, separator: str) -> None:
    rows = ["", ["sentence_a", "sentence_b"], "", ["a", "b"], " ", ["é", "日本"], ""]
    path = make(name, mark + end.join(separator.join(row) for row in rows))
    assert [(record.pair, record.where, record.place.row) for record in read_pairs([path])] == [
        (AB, f"{path}:4", 1),
        (Pair("é", "日本"), f"{path}:6", 2),
    ]


def test_carriage_returns_in_a_large_file_are_read_as_line_feeds_are(make: Make) -> None:
    lines = ["sentence1\tsentence2", *(f'"a {number}\tb' for number in range(20_000)), "c", "d\te"]
    content = "\r".join(lines)
    assert len(content) > 3 << 16
    read = [skipping(make(name, text)) for name, text in (("1.tsv", content), ("2.tsv", content.replace("\r", "\n")))]
    (first, bad), (second, _) = read
    assert [record.pair for record in first] == [record.pair for record in second]
    assert first[-1].where.endswith(":20003") and second[-1].where.endswith(":20003")
    assert bad == ["1.tsv:20002: its number of fields is 1, and in the first line 2"]
    assert about_how_many([make("3.tsv", content)]) == 20_002


@pytest.mark.parametrize("size", [200_000, 3 << 20])
@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.txt", "p.jsonl"])
def test_long_cells_are_fine(make: Make, name: str, size: int) -> None:
    long = "x" * size
    line = json.dumps({"text": long}) if name == "p.jsonl" else long
    assert pairs_in(make(name, line if name in ("p.txt", "p.jsonl") else f"text\n{line}\n")) == [Pair(long)]


def test_several_files_in_their_order(make: Make) -> None:
    table, text = make("1.csv", HEADER + "a,b\n"), make("2.txt", "c\n")
    assert pairs_in(text, table, text) == [Pair("c"), AB, Pair("c")] and pairs_in() == []


@pytest.mark.parametrize("name", ["p.jsonl", "p.txt", "p.jsonl.gz", "p.csv", "p.tsv", "p.tsv.gz"])
def test_no_pair_may_follow(make: Make, name: str) -> None:
    header = LINES[name[2:5]][0] if name[2:5] in LINES else ""
    for content in (header, header.strip(), f"{header}\n \n"):
        assert pairs_in(make(name, content)) == []
