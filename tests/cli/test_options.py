"""What a command was given becomes arguments of its function, and a place for its result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from attnscan.cli.output import SUFFIXES, Output, output_of
from attnscan.errors import OutputError
from attnscan.results.files import Format


def given_where(**given: Any) -> dict[str, Any]:
    """What a command was given of where its result goes."""
    return {"format": None, "csv": False, "decimal_comma": False, "output": None, "signature": None, **given}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (given_where(), Output("table")),
        (given_where(csv=True), Output("csv")),
        *(
            (given_where(output=Path(f"x{suffix}")), Output(kind, Path(f"x{suffix}")))
            for suffix, kind in SUFFIXES.items()
        ),
        (given_where(format="json", output=Path("x.JSON")), Output("json", Path("x.JSON"))),
        (given_where(format="json", output=Path("x.log")), Output("json", Path("x.log"))),
        (given_where(csv=True, output=Path("x")), Output("csv", Path("x"))),
    ],
)
def test_where_the_result_goes(
    given: dict[str, Any], expected: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_of(given) == expected == output_of(given, draws=True)


@pytest.mark.parametrize("name", ["heads", ".csv", "heads.csv.gz", "heads.svg"])
def test_another_suffix_is_an_error_that_lists_them(name: str) -> None:
    with pytest.raises(OutputError) as caught:
        output_of(given_where(output=Path(name)))
    assert name in caught.value.what and all(suffix in caught.value.remedy for suffix in SUFFIXES)


@pytest.mark.parametrize("format", ["parquet", "xlsx"])
def test_what_is_no_text_is_not_for_a_terminal(monkeypatch: pytest.MonkeyPatch, format: Format) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(OutputError, match=rf"no text for a terminal; name a file: -o heads\.{format}"):
        Output(format)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    Output(format)


@pytest.mark.parametrize(
    ("format", "library", "extra"), [("parquet", "pyarrow", "parquet"), ("xlsx", "xlsxwriter", "excel")]
)
def test_a_library_that_is_missing_is_told_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format: Format, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(OutputError, match=rf"needs {library}, .* run: pip install 'attnscan\[{extra}\]'"):
        Output(format, tmp_path / "heads")
