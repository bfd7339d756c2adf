"""Files are read as they were written, in bounded memory; a file that cannot be read is refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pair_files import AB, CD, HEADER, Make, Stdin, gzipped, pairs_in, parquet, refusal, skipping

from attnscan.errors import PairsError
from attnscan.inputs.formats.row import MAX_BYTES
from attnscan.inputs.pairs import Pair, about_how_many, read_pairs
from attnscan.inputs.places.names import FORMATS, PACKED


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

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    @pytest.mark.parametrize("packed", ["", ".gz"])
    @pytest.mark.parametrize(("name", "separator"), [("p.csv", ","), ("p.tsv", "\t"), ("p.txt", "\t")])
    def test_line_ends_and_byte_order_marks(
        self, make: Make, end: str, mark: str, packed: str, name: str, separator: str
    ) -> None:
        rows = ["", ["sentence_a", "sentence_b"], "", ["a", "b"], " ", ["é", "日本"], ""]
        content = (mark + end.join(separator.join(row) for row in rows)).encode()
        path = make(f"{name}{packed}", content)
        assert [(record.pair, record.where, record.place.row) for record in read_pairs([path])] == [
            (AB, f"{path}:4", 1),
            (Pair("é", "日本"), f"{path}:6", 2),
        ]

    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("p.jsonl", '{"text": "a"}\r\r{"text": "c"}\r', [("a", 1), ("c", 3)]),
            ("p.json", '{"text": "a"}\r{"text": "c"}\r', [("a", 1), ("c", 2)]),
            ("p.txt", "a\rc\r" + "x" * (1 << 17) + "\re\r", [("a", 1), ("c", 2), ("x" * (1 << 17), 3), ("e", 4)]),
            ("p.txt", "a\nb\nc\rd\n", [("a", 1), ("b", 2), ("c\rd", 3)]),  # an odd character, as ever
            ("p.txt", "a\rb\rc\rd\ne\r\nf", [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)]),
            ("p.tsv", 'text\r"a\rb', [('"a', 2), ("b", 3)]),
            ("p.csv", 'text\r"a\nb"\r"c\rd"\re\r', [("a\nb", 2), ("c\rd", 4), ("e", 6)]),
            ("p.txt", "a" * (1 << 16) + "\r\nb\r\n", [("a" * (1 << 16), 1), ("b", 2)]),
        ],
    )
    def test_lone_carriage_returns(self, make: Make, name: str, content: str, expected: list[tuple[str, int]]) -> None:
        path = make(name, content.encode())
        records = [(record.pair.a, int(record.where.rpartition(":")[2])) for record in read_pairs([path])]
        assert records == expected

    def test_carriage_returns_in_a_large_file_are_read_as_line_feeds_are(self, make: Make) -> None:
        lines = ["sentence1\tsentence2", *(f'"a {number}\tb' for number in range(20_000)), "c", "d\te"]
        texts = {end: end.join(lines).encode() for end in ("\n", "\r")}
        assert len(texts["\r"]) > 3 << 16
        read = [skipping(make(f"{number}.tsv", text)) for number, text in enumerate(texts.values())]
        first, second = ([record.pair for record in good] for good, _ in read)
        assert first == second
        assert [bad[0].partition(":")[2] for _, bad in read] == [
            "20002: its number of fields is 1, and in the first line 2"
        ] * 2
        assert [good[-1].where.rpartition(":")[2] for good, _ in read] == ["20003"] * 2
        assert about_how_many([make("r.tsv", texts["\r"])]) == 20_002

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
            ("d.csv", "there is no file of pairs by the name of"),
            ("p.doc", "cannot tell the format"),
            ("p.gz", "cannot tell the format"),
            ("p", "cannot tell the format"),
            ("p.xml", "cannot tell the format"),
            ("p.csv.gz.gz", "cannot tell the format"),
            ("p.txt/p.csv", "Not a directory"),
            ("p" * 300 + ".csv", "File name too long"),
            ("a\0b.csv", "null byte"),
        ],
    )
    def test_no_file_of_ours(self, tmp_path: Path, make: Make, name: str, why: str) -> None:
        (tmp_path / "d.csv").mkdir()
        for other in ("p.doc", "p.gz", "p", "p.xml", "p.csv.gz.gz", "p.txt"):
            make(other, "text\na\n")
        error = refusal(str(tmp_path / name))
        assert why in error.what
        with pytest.raises(PairsError):
            read_pairs([str(tmp_path / name)])

    def test_it_is_said_what_formats_there_are(self, make: Make) -> None:
        remedy = refusal(make("p.doc", "x")).remedy
        assert all(suffix in remedy for suffix in (*FORMATS, *PACKED))

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
            ("text\na\n".encode("utf-32"), "is UTF-32"),
            (b"\0\0\xfe\xff" + "text\na\n".encode("utf-32-be"), "is UTF-32"),
            (b"text\ra\nb\nc\n", "is not sound CSV: new-line character"),
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
            (b"text\na\n", "is not gzip but plain text"),
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


class TestStream:
    COUNTS: ClassVar = {"long.tsv": 200_000, "p.tsv": 30_000, "p.csv": 30_000, "p.txt.gz": 30_000, "p.jsonl": 30_000}
    LINE = "the cat sat number {0}\tthe dog ran number {0}\n"

    @pytest.fixture(scope="class")
    def long(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The same pairs in four forms."""
        directory = tmp_path_factory.mktemp("long")
        lines = {name: [self.LINE.format(number) for number in range(count)] for name, count in self.COUNTS.items()}
        for name in ("long.tsv", "p.tsv"):
            (directory / name).write_text("text_a\ttext_b\n" + "".join(lines[name]))
        (directory / "p.csv").write_text("text_a,text_b\n" + "".join(lines["p.csv"]).replace("\t", ","))
        (directory / "p.txt.gz").write_bytes(gzipped("".join(lines["p.txt.gz"]).encode()))
        (directory / "p.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines["p.jsonl"]))
        return directory

    @pytest.mark.parametrize(
        "name", [pytest.param(name, marks=pytest.mark.long if name == "long.tsv" else ()) for name in COUNTS]
    )
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

            def read1(self, _: int | None = -1) -> bytes:
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
from attnscan.inputs.pairs import read_pairs

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
@pytest.mark.long
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
        "import sys\nfrom attnscan.inputs.pairs import read_pairs, shipped_pairs\n"
        "print(len(list(read_pairs(sys.argv[1:]))), len(list(shipped_pairs())) > 9)\n"
        "print(sorted({'pandas', 'pyarrow', 'numpy', 'torch', 'transformers', 'pickle'} & set(sys.modules)))\n"
    )
    path = make("p.csv.gz", HEADER + "a,b\n")
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n[]\n"
