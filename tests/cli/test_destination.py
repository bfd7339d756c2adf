"""In which format a result goes where: to a file, a screen or standard output."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attnscan.cli.output import SUFFIXES, Output, format_of
from attnscan.errors import OutputError
from attnscan.results.tables import Format


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "format"),
        [
            ("heads.csv", "csv"),
            ("heads.tsv", "tsv"),
            ("heads.json", "json"),
            ("heads.jsonl", "jsonl"),
            ("heads.md", "markdown"),
            ("heads.parquet", "parquet"),
            ("heads.xlsx", "xlsx"),
            ("heads.txt", "table"),
            ("HEADS.CSV", "csv"),
            ("v1.2/two.dots.json", "json"),
        ],
    )
    def test_the_suffix_decides(self, name: str, format: str) -> None:
        assert format_of(Path(name)) == format

    @pytest.mark.parametrize("name", ["heads", "heads.xls", ".csv", "heads.csv.gz", "heads."])
    def test_another_suffix_is_an_error_that_lists_them(self, name: str) -> None:
        with pytest.raises(OutputError) as caught:
            format_of(Path(name))
        assert name in caught.value.what
        assert all(suffix in caught.value.remedy for suffix in SUFFIXES)


class TestOutput:
    @pytest.mark.parametrize("format", ["parquet", "xlsx"])
    def test_what_is_no_text_is_not_for_a_terminal(self, monkeypatch: pytest.MonkeyPatch, format: Format) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        with pytest.raises(OutputError, match=rf"cannot be shown on a terminal; name a file: -o heads\.{format}"):
            Output(format)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
        Output(format)

    @pytest.mark.parametrize(
        ("format", "library", "extra"), [("parquet", "pyarrow", "parquet"), ("xlsx", "xlsxwriter", "excel")]
    )
    def test_a_library_that_is_missing_is_told_before_the_work(
        self, monkeypatch: pytest.MonkeyPatch, file: Path, format: Format, library: str, extra: str
    ) -> None:
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(OutputError, match=rf"needs {library}, .* run: pip install 'attnscan\[{extra}\]'"):
            Output(format, file)
