"""Text is read as a stream; a file that cannot be read as a whole is refused in one line."""

from __future__ import annotations

import io
import sys

import pytest
from pair_files import Make, Stdin, gzipped, parquet, refusal

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
