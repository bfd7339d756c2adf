"""A workbook holds what the table holds, typed, and reads back as it was written."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.worksheet.worksheet import Worksheet

from attnscan.errors import OutputError
from attnscan.results.tables import LONGEST_TEXT, MOST_ROWS, workbook

KEPT = [
    *("-", "--", "=1+1", "+49", "-abc", "@x", '="', "a\tb", "a\nb", '"', "'=1", "=" + "x" * 300, "😀", "👩\u200d🚀"),
    *("007", "1/2", "2-11", "TRUE", "#N/A", " a ", "1e5", "\u202eabc", "שלום", "[CLS]", "##s", "<b>&amp;", "\u00a0"),
    *("<r></r>", "<r>&</r>", "<r><t>=1</t></r>"),  # which XlsxWriter takes for XML
]
ESCAPED = {"\x07": r"\x07", "\x1b[0m": r"\x1b[0m", "\r": r"\r", "\ud800": r"\ud800", "\uffff": r"\uffff"}


def opened(content: bytes) -> openpyxl.Workbook:
    return openpyxl.load_workbook(io.BytesIO(content))


def rows_of(sheet: Worksheet) -> list[tuple[Any, ...]]:
    return list(sheet.iter_rows(values_only=True))


def of_texts(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"token": pd.Series(texts, dtype=object), "score": 0.5})


def typed() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "model": ["m", "n"],
            "head": [0, 11],
            "score": [1 / 3, np.nan],
            "weight": np.array([0.5, 1e-9], np.float32),
            "rank": pd.array([3, None], dtype="Int64"),
            "ratio": [np.inf, -2.0],
            "ready": [True, False],
        }
    )
    frame.attrs = {"signature": {"model": "=m", "by": "weight", "pairs_read": 2, "revision": None}, "units": ["[CLS]"]}
    return frame


def test_cells_are_typed_and_what_is_missing_is_empty() -> None:
    sheet = opened(workbook(typed()))["heads"]
    header, first, second = rows_of(sheet)
    assert header == tuple(typed().columns)
    assert first == ("m", 0, pytest.approx(1 / 3, rel=1e-15), 0.5, 3, "inf", True)
    assert second == ("n", 11, None, pytest.approx(1e-9), None, -2, False)
    assert [cell.data_type for cell in sheet[2]] == ["s", "n", "n", "n", "n", "s", "b"]
    assert [cell.number_format for cell in sheet[2]][:4] == ["General", "General", "0.000000", "0.000000"]


def test_the_header_stays_in_sight_and_columns_are_as_wide_as_they_need() -> None:
    frame = of_texts(["a", "x" * 20, "y" * 500])
    sheet = opened(workbook(frame))["rows"]
    assert sheet.freeze_panes == "A2" and sheet.auto_filter.ref == "A1:B4"
    assert [cell.font.bold for row in sheet["A1:B2"] for cell in row] == [True, True, False, False]
    assert [sheet.column_dimensions[letter].width for letter in "AB"] == pytest.approx([60, 11], abs=1)
    assert opened(workbook(of_texts(["x" * 20])))["rows"].column_dimensions["A"].width == pytest.approx(23, abs=1)


def test_what_is_known_about_the_rows_is_on_a_sheet_of_its_own() -> None:
    book = opened(workbook(typed()))
    assert book.sheetnames == ["heads", "about"]
    assert rows_of(book["about"]) == [
        ("name", "value"),
        ("signature.model", "=m"),
        ("signature.by", "weight"),
        ("signature.pairs_read", 2),
        ("signature.revision", None),
        ("units.0", "[CLS]"),
    ]
    assert book["about"]["B2"].data_type == "s"
    assert opened(workbook(pd.DataFrame({"family": ["bert"]}))).sheetnames == ["rows"]


class TestText:
    def read(self, texts: list[str]) -> list[Any]:
        return [row[0] for row in opened(workbook(of_texts(texts)))["rows"].iter_rows(min_row=2)]

    def test_it_is_text_whatever_it_begins_with(self) -> None:
        cells = self.read(KEPT)
        assert [cell.value for cell in cells] == KEPT
        assert {cell.data_type for cell in cells} == {"s"}

    def test_it_stays_text_when_it_is_edited(self) -> None:
        kept = {cell.value: bool(cell.quotePrefix) for cell in self.read(KEPT)}
        assert all(kept[text] for text in ("=1+1", "+49", "-abc", "@x", "007", "1/2", "2-11", "#N/A", "1e5"))
        assert not kept["a\tb"], "which nothing reads as something else"

    def test_what_xml_cannot_hold_is_shown_as_an_escape(self) -> None:
        assert [cell.value for cell in self.read(list(ESCAPED))] == list(ESCAPED.values())

    def test_what_a_workbook_reads_as_an_escape_is_told_from_one(self) -> None:
        """Excel and LibreOffice take `_x005F_` for the underscore; openpyxl shows what is in the file."""
        assert [cell.value for cell in self.read(["_x0041_", "a_b", "_x41_"])] == ["_x005F_x0041_", "a_b", "_x41_"]

    @settings(deadline=None, max_examples=50)
    @given(texts=st.lists(st.text(st.characters(codec="utf-8"), min_size=1) | st.text(min_size=1), min_size=1))
    def test_any_text_is_a_text_that_opens(self, texts: list[str]) -> None:
        cells = self.read(texts)
        assert {cell.data_type for cell in cells} == {"s"} and len(cells) == len(texts)
        for cell, text in zip(cells, texts, strict=True):
            assert cell.value == text or "\\" in cell.value or "_x005F_" in cell.value

    def test_one_that_no_cell_holds_is_an_error(self) -> None:
        assert len(self.read(["x" * LONGEST_TEXT])[0].value) == LONGEST_TEXT
        for text in ("x" * (LONGEST_TEXT + 1), "😀" * (LONGEST_TEXT // 2 + 1)):
            with pytest.raises(OutputError, match=r"longer than a cell of a workbook holds, 32,767; write \.csv"):
                workbook(of_texts([text]))


def test_the_same_table_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = workbook(typed())
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)  # by which an archive dates what it holds
    assert workbook(typed()) == first
    with ZipFile(io.BytesIO(first)) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980} and archive.testzip() is None
        assert b">1980-01-01T00:00:00Z</dcterms:created>" in archive.read("docProps/core.xml")


def test_more_rows_than_a_sheet_has_are_an_error_at_once() -> None:
    frame = pd.DataFrame({"head": np.zeros(MOST_ROWS, np.int8)})
    with pytest.raises(OutputError, match=r"1,048,576 rows are more than .* 1,048,575; write \.csv or \.parquet"):
        workbook(frame)


@pytest.mark.parametrize("room", [300, 50_000])
def test_a_disk_that_is_full_is_one_error(room: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, whose files may not grow: nothing else is said, not even at its end."""
    script = f"""
import resource, signal
import numpy, pandas
from attnscan.errors import OutputError
from attnscan.results.tables import workbook
frame = pandas.DataFrame({{"head": range(3000), "score": numpy.linspace(0, 1, 3000)}})
workbook(frame)
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.RLIM_INFINITY))
try:
    workbook(frame)
except OutputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode == 0
    out, err = capfd.readouterr()
    assert out == "cannot write the workbook: File too large; free some space, or set TMPDIR\n" and err == ""
    assert not list(tmp_path.iterdir()), "what is left of the sheets"
