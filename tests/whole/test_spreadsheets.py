"""A table opens in a spreadsheet as it was written: values kept, nothing run. Needs LibreOffice, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnscan.results.tables import render, safe_cell

SOFFICE = shutil.which("soffice")
TEXTS = [
    *("=1+1", "+1", "-1+2", "@SUM(A1)", '=HYPERLINK("http://x","y")', "\t=1", "\r=1", "=cmd|' /C calc'!A0"),
    *('a "quoted", cell', "semi;colon", "tab\tin", "line\nin", "日本", "שלום", "👩\u200d🚀", "'", "''=1", "plain"),
]


@pytest.mark.skipif(SOFFICE is None, reason="no LibreOffice")
def test_libreoffice_keeps_every_value_and_runs_none(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"token": TEXTS, "n": range(len(TEXTS)), "weight": np.linspace(0, 1, len(TEXTS)), "score": np.nan}
    )
    (tmp_path / "in.csv").write_bytes(render(frame, "csv"))
    utf8_with_commas = "44,34,76,1"  # separator, quote, encoding, first line: both ways
    command = [SOFFICE, "--headless", f"-env:UserInstallation=file://{tmp_path}/profile"]
    for name, kind in (("in.csv", "ods"), ("in.ods", f"csv:Text - txt - csv (StarCalc):{utf8_with_commas}")):
        reading = [f"--infilter=CSV:{utf8_with_commas}"] if name == "in.csv" else []
        where = ["--outdir", str(tmp_path if name == "in.csv" else tmp_path / "out")]
        subprocess.run(
            [str(each) for each in [*command, *reading, "--convert-to", kind, *where, tmp_path / name]],
            check=True,
            capture_output=True,
            timeout=240,
        )
    back = pd.read_csv(tmp_path / "out" / "in.csv", keep_default_na=False)
    assert back["token"].tolist() == [safe_cell(text) for text in TEXTS]
    assert back["n"].astype(int).tolist() == list(range(len(TEXTS)))
    np.testing.assert_allclose(back["weight"].astype(float), frame["weight"], atol=1e-6)
    assert set(back["score"]) == {""}
