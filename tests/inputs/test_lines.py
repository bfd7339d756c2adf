"""Text is read as a stream; a file that cannot be read as a whole is refused in one line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import ClassVar

import pytest
from pair_files import HEADER, Make, Stdin, gzipped, parquet, refusal

from attnscan.inputs.read import read_pairs

TEXT = "text\na\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        *((content, "is empty") for content in (b"", b"\n", b"\r\n \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n")),
        ("é".encode() + b"text\xff\na\n", "its first line is not of its encoding"),
        (b"te\0xt\na\n", "its first line has a NUL character"),
        (b'"text"x,y\na\n', "is not valid CSV"),
        (b'"text\na\n', "is not valid CSV"),
        (b"text\ra\nb\nc\n", "is not valid CSV: new-line character"),
        (gzipped(TEXT.encode()), "is gzip"),
        (parquet({"text": ["a"]}), "is Parquet"),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("skip", [False, True], ids=["", "skip"])
@pytest.mark.parametrize("name", ["p.csv", "p.tsv.gz"])
def test_a_bad_first_line_ends_reading(make: Make, name: str, content: bytes, why: str, skip: bool) -> None:
    if "tsv" in name and "CSV" in why:
        content, why = b"\x81\n", "is not of its encoding"
    error = refusal(make(name, content), skip=skip)
    assert why in error.what and "--skip-bad" not in error.remedy


class TestStream:
    COUNTS: ClassVar = {"long.tsv": 200_000, "p.tsv": 15_000, "p.csv": 15_000, "p.txt.gz": 15_000, "p.jsonl": 15_000}
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

    @pytest.mark.long
    @pytest.mark.parametrize("name", COUNTS)
    def test_memory_does_not_grow_with_the_file(self, long: Path, name: str) -> None:
        tracemalloc.start()
        count = sum(1 for _ in read_pairs([str(long / name)]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == self.COUNTS[name]
        assert peak < 1 << 19  # a file of 15,000 lines holds more than that

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


def test_reading_text_needs_neither_pandas_nor_pyarrow(make: Make) -> None:
    script = (
        "import sys\nfrom attnscan.inputs.read import read_pairs, shipped_pairs\n"
        "print(len(list(read_pairs(sys.argv[1:]))), len(list(shipped_pairs())) > 9)\n"
        "print(sorted({'pandas', 'pyarrow', 'numpy', 'torch', 'transformers', 'pickle'} & set(sys.modules)))\n"
    )
    path = make("p.csv.gz", HEADER + "a,b\n")
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n[]\n"
