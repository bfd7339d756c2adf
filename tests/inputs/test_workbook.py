"""Sheets are read as they are seen, and a file that is none is refused in one line."""

from __future__ import annotations

import io
import sys
from datetime import datetime

import openpyxl
import pytest
from pair_files import AB, CD, Make, refusal

from attnscan.inputs.read import FileReading, read_pairs
from attnscan.inputs.sentence import Pair


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

    def test_the_first_visible_sheet(self, make: Make) -> None:
        made = openpyxl.Workbook()
        made.active.sheet_state = "hidden"
        sheet = made.create_sheet("mine")
        sheet.append(["text"])
        sheet.append(["a"])
        made.save(file := io.BytesIO())
        notes: list[str] = []
        path = make("p.xlsx", file.getvalue())
        assert [r.pair for r in read_pairs([path], on_note=notes.append)] == [Pair("a")]
        assert notes == [f"{path}: its first visible sheet of cells is read, 'mine'"]

    def test_ids_of_every_kind(self, make: Make) -> None:
        ids = [7, datetime(2024, 1, 5, 8, 30), True, 0.5, "NA", None]
        path = make("p.xlsx", book(["id", "text"], *([each, "a"] for each in ids)))
        read = [r.place.id for r in read_pairs([path], FileReading(id="id"))]
        assert read == ["7", "2024-01-05 08:30:00", "True", "0.5", "NA", None]

    def test_a_cell_that_is_no_sentence(self, make: Make) -> None:
        assert "row 2: sentence B is not text" in refusal(make("p.xlsx", book(["text1", "text2"], ["a", 5]))).what
        assert "row 2: sentence B is missing" in refusal(make("p.xlsx", book(["text1", "text2"], ["a"]))).what

    def test_without_calamine(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "python_calamine", None)
        refused = refusal(make("p.xlsx", book(["text"], ["a"])))
        assert "needs python-calamine, which is not installed" in refused.what
        assert refused.remedy == "run: pip install 'attnscan[excel]'"


class TestHostile:
    @pytest.mark.parametrize("content", [b"", b"text\na\n", b"PK\x03\x04" + b"x" * 99, book(["text"], ["a"])[:-30]])
    def test_what_is_none(self, make: Make, content: bytes) -> None:
        assert "not a valid .xlsx file" in refusal(make("p.xlsx", content)).what

    def test_an_empty_one(self, make: Make) -> None:
        assert "is empty" in refusal(make("p.xlsx", book())).what
