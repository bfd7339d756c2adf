"""In which format a result goes where: to a file, a screen or standard output."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pandas as pd
import pytest
from devices import FULL
from rich.text import Text

from attnscan.cli import output as destination
from attnscan.cli.output import FORMATS, SUFFIXES, Destination, Shown, format_of, write_stdout
from attnscan.errors import OutputError
from attnscan.results.tables import Format

LIBRARIES = [("parquet", "pyarrow", "parquet"), ("xlsx", "xlsxwriter", "excel")]


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

    def test_every_format_has_a_suffix(self) -> None:
        assert set(SUFFIXES.values()) == set(FORMATS)

    @pytest.mark.parametrize("name", ["heads", "heads.xls", ".csv", "heads.csv.gz", "heads."])
    def test_another_suffix_is_an_error_that_lists_them(self, name: str) -> None:
        with pytest.raises(OutputError) as caught:
            format_of(Path(name))
        assert name in caught.value.what
        assert all(suffix in caught.value.remedy for suffix in SUFFIXES)


class TestDestination:
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame({"head": [0, 1]})

    def view(self, width: int) -> Text:
        return Text("=" * width + "[bold]")

    def test_a_format_takes_the_frame_and_draws_no_screen(self, file: Path) -> None:
        Destination("csv", file).emit(Shown(self.frame, lambda _: pytest.fail("no screen was asked for")))
        assert file.read_text() == "head\n0\n1\n"

    def test_a_screen_takes_no_frame(self, file: Path) -> None:
        Destination("table", file).emit(Shown(lambda: pytest.fail("no frame was asked for"), self.view))
        assert set(file.read_text().replace("\n", "")) == set("=[bold]")

    def test_the_format_that_is_asked_for_goes_before_the_suffix(self, file: Path) -> None:
        Destination("tsv", file).emit(Shown(lambda: self.frame().assign(layer=3), self.view))
        assert file.read_text() == "head\tlayer\n0\t3\n1\t3\n"

    @pytest.mark.parametrize(("columns", "width"), [("72", 72), ("10", 40)])
    def test_a_screen_is_as_wide_as_the_terminal_but_never_too_narrow(
        self, monkeypatch: pytest.MonkeyPatch, file: Path, columns: str, width: int
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        widths = []
        Destination("table", file).emit(Shown(self.frame, lambda given: widths.append(given) or Text("x")))
        assert widths == [width]

    def test_standard_output_takes_the_bytes(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        Destination("csv").emit(Shown(self.frame, self.view))
        assert capfdbinary.readouterr() == (b"head\n0\n1\n", b"")

    @pytest.mark.parametrize("format", ["parquet", "xlsx"])
    def test_what_is_no_text_is_not_for_a_terminal(self, monkeypatch: pytest.MonkeyPatch, format: Format) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        with pytest.raises(OutputError, match=rf"cannot be shown on a terminal; name a file: -o heads\.{format}"):
            Destination(format)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
        Destination(format)

    @pytest.mark.parametrize(("format", "library", "extra"), LIBRARIES)
    def test_a_library_that_is_missing_is_told_before_the_work(
        self, monkeypatch: pytest.MonkeyPatch, file: Path, format: Format, library: str, extra: str
    ) -> None:
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(OutputError, match=rf"needs {library}, .* run: pip install 'attnscan\[{extra}\]'"):
            Destination(format, file)


class TestSignature:
    """What JSON says of a result beside its rows, in a file of its own."""

    def frame(self) -> pd.DataFrame:
        frame = pd.DataFrame({"head": [0], "score": [0.5]})
        frame.attrs = {"signature": {"model": "m", "by": "weight"}, "units": ["a"]}
        return frame

    @pytest.mark.parametrize("format", FORMATS)
    def test_it_is_what_json_says_whatever_the_format(self, tmp_path: Path, format: Format) -> None:
        where = Destination(format, tmp_path / "result", signature=tmp_path / "about.json")
        where.emit(Shown(self.frame, lambda _: Text("screen")))
        assert json.loads((tmp_path / "about.json").read_text()) == self.frame().attrs

    def test_it_is_written_where_the_reader_of_the_result_has_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(_: bytes) -> None:
            raise BrokenPipeError

        monkeypatch.setattr(destination, "write_stdout", gone)
        with pytest.raises(BrokenPipeError):
            Destination("csv", signature=tmp_path / "about.json").emit(Shown(self.frame, lambda _: Text("")))
        assert json.loads((tmp_path / "about.json").read_text()) == self.frame().attrs

    def test_one_that_cannot_be_written_is_told_before_the_work(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="there is no directory"):
            Destination("csv", signature=tmp_path / "no" / "about.json")


class TestStandardOutput:
    def test_a_closed_one_is_found_out_at_once(self, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", None)
            with pytest.raises(OutputError, match="name a file with -o"):
                Destination("csv")
            assert Destination("csv", file).path == file

    def opened(self, monkeypatch: pytest.MonkeyPatch, handle: int) -> None:
        monkeypatch.setattr(sys, "stdout", os.fdopen(handle, "w", closefd=False))

    @pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    def test_a_full_one_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with FULL.open("wb", buffering=0) as full, monkeypatch.context() as patch:
            self.opened(patch, full.fileno())
            with pytest.raises(OutputError, match="No space left on device"):
                write_stdout(b"x" * 100_000)
            sys.stdout.detach().detach()  # type: ignore[attr-defined]

    def test_one_whose_reader_has_gone_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with monkeypatch.context() as patch:
            self.opened(patch, writer)
            with pytest.raises(BrokenPipeError):
                write_stdout(b"x" * 100_000)
            sys.stdout.detach().detach()  # type: ignore[attr-defined]
        os.close(writer)
