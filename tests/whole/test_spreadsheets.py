"""A table opens in LibreOffice as it was written, under English and German settings: nothing changed, nothing run.

Excel is not here to be asked. By its documentation it gives the same for a formula that is one text, `="-abc"`, as
LibreOffice does, and it takes the workbooks, in which text is marked as text.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from cells import text_of

from attnscan.results.tables import Format, render
from attnscan.safe_text import plain

SOFFICE = shutil.which("soffice")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("soffice"),
    pytest.mark.skipif(SOFFICE is None, reason="no LibreOffice; to run this: apt-get install libreoffice-calc-nogui"),
]
TEXTS = [
    *("-", "--", "+", "=", "@", "-=", "-->", "@@", "- -", "＝", "＋", "－", "＠"),
    *("=1+1", "==", "=-", "+49", "-1+2", "-1-2", "-abc", "+abc", "@abc", "-based", "@SUM(A1)", "=A1", "＝1+1", "－x"),
    *('=HYPERLINK("http://x","y")', "=cmd|' /C calc'!A0", '="', '="x"', '=""&""', "\t=1", "\r=1", " =1", "-😀"),
    *("=" + "x" * 300, '="' * 400, "-" + "😀" * 300, "+" + "ab" * 4000),
    *(
        'a "quoted", cell',
        "semi;colon",
        "tab\tin",
        "line\nin",
        "日本",
        "שלום",
        "👩\u200d🚀",
        "'",
        "''=1",
        "'-x",
        "plain",
    ),
]
ENGLISH, GERMAN = 1033, 1031
EVALUATING, NOT = "", ",false,false,false,false,false,0,false"
FILES: dict[str, tuple[Format, bool, str]] = {  # format, decimal comma, how LibreOffice is told to read it
    "english.csv": ("csv", False, f"CSV:44,34,76,1,,{ENGLISH}{EVALUATING}"),
    "english.tsv": ("tsv", False, f"CSV:9,34,76,1,,{ENGLISH}{EVALUATING}"),
    "german.csv": ("csv", True, f"CSV:59,34,76,1,,{GERMAN}{EVALUATING}"),
    "german.tsv": ("tsv", True, f"CSV:9,34,76,1,,{GERMAN}{EVALUATING}"),
    "english-not-evaluating.csv": ("csv", False, f"CSV:44,34,76,1,,{ENGLISH}{NOT}"),
    "a-point-in-german.csv": ("csv", False, f"CSV:44,34,76,1,,{GERMAN}{EVALUATING}"),
    "workbook.xlsx": ("xlsx", False, ""),
}


def frame() -> pd.DataFrame:
    weights = np.linspace(-1, 1, len(TEXTS))
    return pd.DataFrame({"token": TEXTS, "n": range(len(TEXTS)), "weight": weights, "score": np.nan})


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[tuple[Any, ...]]]:
    """What LibreOffice makes of each file, row by row, with the values of formulas in their places."""
    place = tmp_path_factory.mktemp("soffice")
    made = {}
    for name, (form, comma, told) in FILES.items():
        (place / name).write_bytes(render(frame(), form, decimal_comma=comma))
        where, reading = place / Path(name).stem, [f"--infilter={told}"] if told else []
        command = [str(SOFFICE), "--headless", f"-env:UserInstallation=file://{place}/profile", *reading]
        command += ["--convert-to", "xlsx:Calc MS Excel 2007 XML", "--outdir", str(where), str(place / name)]
        subprocess.run(command, check=True, capture_output=True, timeout=240)
        book = openpyxl.load_workbook(where / f"{Path(name).stem}.xlsx", data_only=True)
        made[name] = list(book.worksheets[0].iter_rows(min_row=2, values_only=True))
    return made


@pytest.mark.parametrize("name", ["english.csv", "english.tsv", "german.csv", "german.tsv"])
def test_every_text_is_shown_as_it_is_and_every_number_is_one(
    read: Mapping[str, list[tuple[Any, ...]]], name: str
) -> None:
    tokens, counts, weights, scores = zip(*read[name], strict=True)
    assert list(tokens) == [plain(text) for text in TEXTS]
    assert list(counts) == list(range(len(TEXTS)))
    assert {type(each) for each in weights} <= {int, float}
    np.testing.assert_allclose(np.array(weights, float), frame()["weight"], atol=1e-6)
    assert set(scores) == {None}


def test_a_workbook_holds_the_texts_themselves(read: Mapping[str, list[tuple[Any, ...]]]) -> None:
    tokens, _, weights, scores = zip(*read["workbook.xlsx"], strict=True)
    assert list(tokens) == [plain(text) for text in TEXTS]
    np.testing.assert_allclose(np.array(weights, float), frame()["weight"], rtol=1e-14)
    assert set(scores) == {None}


def test_where_formulas_are_not_evaluated_the_formula_is_shown_and_not_run(
    read: Mapping[str, list[tuple[Any, ...]]],
) -> None:
    """The box "Evaluate formulas" of the dialog that opens CSV: a formula in sight is more than the text."""
    tokens = [row[0] for row in read["english-not-evaluating.csv"]]
    assert [text_of(token) for token in tokens] == [plain(text) for text in TEXTS]
    assert '="-abc"' in tokens


def test_a_german_spreadsheet_needs_the_comma(read: Mapping[str, list[tuple[Any, ...]]]) -> None:
    """A control."""
    assert {type(row[2]) for row in read["a-point-in-german.csv"]} == {str}
