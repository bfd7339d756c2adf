"""A table opens in LibreOffice as it was written, under English and German settings: nothing
changed, nothing run.

Excel is not here to be asked. By its documentation it gives the same for a formula that is one
text, `="-abc"`, as LibreOffice does, and it takes the workbooks, in which text is marked as text.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from support.csv_cells import text_of

from attnscan.results.files import Format, render
from attnscan.text import plain

SOFFICE = shutil.which("soffice")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("soffice"),
    pytest.mark.skipif(
        SOFFICE is None,
        reason="no LibreOffice; to run this: apt-get install libreoffice-calc-nogui",
    ),
]
TEXTS = [
    *("-", "--", "+", "=", "@", "-=", "-->", "@@", "- -", "＝", "＋", "－", "＠"),
    *(
        "=1+1",
        "==",
        "=-",
        "+49",
        "-1+2",
        "-1-2",
        "-abc",
        "+abc",
        "@abc",
        "-based",
        "@SUM(A1)",
        "=A1",
        "＝1+1",
        "－x",
    ),
    *(
        '=HYPERLINK("http://x","y")',
        "=cmd|' /C calc'!A0",
        '="',
        '="x"',
        '=""&""',
        "\t=1",
        "\r=1",
        " =1",
        "-😀",
    ),
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
FRAME = pd.DataFrame(
    {
        "token": TEXTS,
        "n": range(len(TEXTS)),
        "weight": np.linspace(-1, 1, len(TEXTS)),
        "score": np.nan,
    }
)
NOT_EVALUATING = ",false,false,false,false,false,0,false"
"""The box "Evaluate formulas" of the dialog that opens CSV: a formula in sight is more than the
text.
"""
FILES: dict[
    str, tuple[Format, bool, str]
] = {  # format, decimal comma, how LibreOffice is told to read it
    "english.csv": ("csv", False, "CSV:44,34,76,1,,1033"),
    "english.tsv": ("tsv", False, "CSV:9,34,76,1,,1033"),
    "german.csv": ("csv", True, "CSV:59,34,76,1,,1031"),
    "german.tsv": ("tsv", True, "CSV:9,34,76,1,,1031"),
    "workbook.xlsx": ("xlsx", False, ""),
    "english-not-evaluating.csv": ("csv", False, f"CSV:44,34,76,1,,1033{NOT_EVALUATING}"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_text_is_shown_as_it_is_and_every_number_is_one(name: str, tmp_path: Path) -> None:
    form, comma, infilter = FILES[name]
    (tmp_path / name).write_bytes(render(FRAME, form, decimal_comma=comma))
    command: list[Any] = [SOFFICE, "--headless", f"-env:UserInstallation=file://{tmp_path}/profile"]
    command += [f"--infilter={infilter}"] if infilter else []
    command += [
        "--convert-to",
        "xlsx:Calc MS Excel 2007 XML",
        "--outdir",
        tmp_path / "read",
        tmp_path / name,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    book = openpyxl.load_workbook(tmp_path / "read" / f"{Path(name).stem}.xlsx", data_only=True)
    tokens, counts, weights, scores = zip(
        *book.worksheets[0].iter_rows(min_row=2, values_only=True), strict=True
    )
    if "not-evaluating" in name:
        assert '="-abc"' in tokens
        tokens = tuple(map(text_of, tokens))
    assert list(tokens) == [plain(text) for text in TEXTS]
    assert list(counts) == list(range(len(TEXTS))) and set(scores) == {None}
    assert {type(each) for each in weights} <= {int, float}
    np.testing.assert_allclose(np.array(weights, float), FRAME["weight"], atol=1e-6)
