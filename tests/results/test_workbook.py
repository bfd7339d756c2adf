"""A workbook holds what the table holds, typed, and reads back as it was written."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from openpyxl.worksheet.worksheet import Worksheet

from attnscan.errors import OutputError
from attnscan.results.files import MOST_ROWS, render

KEPT = [
    *("-", "--", "=1+1", "+49", "-abc", "@x", '="', '"', "'=1", "=" + "x" * 300, "😀", "👩\u200d🚀", "http://x"),
    *("007", "1/2", "2-11", "TRUE", "#N/A", " a ", "1e5", "שלום", "[CLS]", "##s", "<b>&amp;", "\u00a0"),
]
ESCAPED = {"\x07": r"\x07", "\x1b[0m": r"\x1b[0m", "a\tb": r"a\tb", "\ud800": r"\ud800", "\uffff": r"\uffff"}


def opened(frame: pd.DataFrame) -> openpyxl.Workbook:
    return openpyxl.load_workbook(io.BytesIO(render(frame, "xlsx")))


def rows_of(sheet: Worksheet) -> list[tuple[Any, ...]]:
    return list(sheet.iter_rows(values_only=True))


def of_texts(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"token": pd.Series(texts, dtype=object), "score": 0.5})


def typed() -> pd.DataFrame:
    numbers = {"head": [0, 11], "score": [1 / 3, np.nan], "weight": np.array([0.5, 1e-9], np.float32)}
    numbers |= {"rank": pd.array([3, None], dtype="Int64"), "ratio": [np.inf, -2.0], "ready": [True, False]}
    frame = pd.DataFrame({"model": ["m", "n"], **numbers})
    frame.attrs = {"signature": {"model": "=m", "pairs_read": 2, "revision": None}, "units": ["[CLS]"]}
    return frame


def test_cells_are_typed_and_what_is_missing_is_empty() -> None:
    sheet = opened(typed())["heads"]
    header, first, second = rows_of(sheet)
    assert header == tuple(typed().columns)
    assert first == ("m", 0, pytest.approx(1 / 3, rel=1e-15), 0.5, 3, "inf", True)
    assert second == ("n", 11, None, pytest.approx(1e-9), None, -2, False)
    assert [cell.data_type for cell in sheet[2]] == ["s", "n", "n", "n", "n", "s", "b"]
    assert sheet.freeze_panes == "A2"
    assert opened(of_texts(["x" * 20]))["rows"].column_dimensions["A"].width > 18


def test_what_is_known_about_the_rows_is_on_a_sheet_of_its_own() -> None:
    book = opened(typed())
    assert book.sheetnames == ["heads", "about"]
    about = [("signature.model", "=m"), ("signature.pairs_read", 2), ("signature.revision", None)]
    assert sorted(rows_of(book["about"])[1:]) == [*about, ("units", "['[CLS]']")]
    assert book["about"]["B2"].data_type == "s"
    assert opened(pd.DataFrame({"family": ["bert"]})).sheetnames == ["rows"]


def cells(texts: list[str]) -> list[Any]:
    return [row[0] for row in opened(of_texts(texts))["rows"].iter_rows(min_row=2)]


def test_text_is_text_whatever_it_begins_with_and_what_xml_cannot_hold_an_escape() -> None:
    written = cells([*KEPT, *ESCAPED])
    assert [cell.value for cell in written] == [*KEPT, *ESCAPED.values()]
    assert {cell.data_type for cell in written} == {"s"}


def test_the_same_table_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, tomorrow = render(typed(), "xlsx"), time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)  # by which an archive dates what it holds
    assert render(typed(), "xlsx") == first


def test_more_rows_than_a_sheet_has_are_an_error_at_once() -> None:
    frame = pd.DataFrame({"head": np.zeros(MOST_ROWS, np.int8)})
    with pytest.raises(OutputError, match=r"1,048,576 rows are more than .* 1,048,575; write \.csv or \.parquet"):
        render(frame, "xlsx")


def test_a_text_that_a_cell_would_cut_is_an_error() -> None:
    render(pd.DataFrame({"text": ["x" * 32_767]}), "xlsx")
    with pytest.raises(OutputError, match=r"a cell .* 32,767 characters at most; write \.csv or \.parquet"):
        render(pd.DataFrame({"text": ["x" * 32_768], "head": [1]}), "xlsx")
