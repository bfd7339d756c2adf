"""Sheets are read as they are seen, and a file that is none is refused in one line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import openpyxl
import pytest
from hostile.workbooks import SOFFICE, Book, books, by_libreoffice, holds
from pair_files import AB, CD, Make, refusal

from attnscan.inputs.columns import FileReading
from attnscan.inputs.formats import workbook
from attnscan.inputs.pairs import Pair, read_pairs


def book(*rows: list[object], gap: int = 0) -> bytes:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    if gap:
        made.active.cell(gap, 1, "a")
        made.active.cell(gap, 2, "b")
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


class TestSheets:
    def test_a_table(self, make: Make) -> None:
        path = make("p.xlsx", book(["id", "query", "passage"], [7, "a", "b"], [8, "c", "d", "e"]))
        records = list(read_pairs([path], FileReading(id="id")))
        assert [(r.pair, r.where, r.place.row, r.place.id) for r in records] == [
            (AB, f"{path}: row 2", 1, "7"),
            (CD, f"{path}: row 3", 2, "8"),
        ]

    def test_blank_rows_count(self, make: Make) -> None:
        path = make("p.xlsx", book([], ["text1", "text2"], ["c", "d"], gap=50))
        assert [(r.pair, r.place.row) for r in read_pairs([path])] == [(CD, 1), (AB, 48)]

    def test_without_names(self, make: Make) -> None:
        path = make("p.xlsx", book(["Is it so?", "It is."], ["c", "d"]))
        notes: list[str] = []
        assert [r.pair for r in read_pairs([path], on_note=notes.append)] == [Pair("Is it so?", "It is."), CD]
        assert "its first line looks like data" in notes[0]


@pytest.mark.parametrize("written", books(), ids=lambda written: written.name)
def test_what_other_programs_write(tmp_path: Path, written: Book) -> None:
    written.write(path := tmp_path / "p.xlsx")
    holds(written, path)


@pytest.mark.long
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed")
def test_what_libreoffice_saves_again(tmp_path: Path) -> None:
    read = [holds(written, path) for written, path in by_libreoffice(tmp_path)]
    assert len(read) > 30 and sum(read) > 20


class TestHostile:
    @pytest.mark.parametrize("content", [b"", b"text\na\n", b"PK\x03\x04" + b"x" * 99, book(["text"], ["a"])[:-30]])
    def test_what_is_none(self, make: Make, content: bytes) -> None:
        assert "not a valid .xlsx file" in refusal(make("p.xlsx", content)).what

    def test_an_empty_one(self, make: Make) -> None:
        assert "is empty" in refusal(make("p.xlsx", book())).what

    def test_a_bomb(self, tmp_path: Path) -> None:
        path = tmp_path / "p.xlsx"
        path.write_bytes(book(["text"], ["a"]))
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed, packed.open("bomb", "w") as file:
            for _ in range(1 + (workbook._MAX_UNPACKED >> 24)):
                file.write(bytes(1 << 24))
        assert path.stat().st_size < 2 << 20
        assert "at most 256 MiB are read" in refusal(str(path)).what
