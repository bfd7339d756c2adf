"""The bar on a terminal's standard error: there from the first moment on, and nothing where there is no terminal."""

from __future__ import annotations

import re
import sys
from io import StringIO

import pytest

from attnscan.cli.output import running
from attnscan.scan.options import note, warn


def terminal(monkeypatch: pytest.MonkeyPatch, width: int = 80) -> StringIO:
    """A standard error that takes itself for a terminal."""
    stream = StringIO()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def _shown(text: str) -> str:
    """What was written, without what a terminal obeys, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_what_runs_is_there_at_once_and_whole_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = terminal(monkeypatch, width)
    with running("labels: predictive words, 9 of 3 pairs: hidden sequences") as step:
        first = _shown(shown.getvalue())
        step("labels: predictive words, 9 of 3 pairs: hidden sequences", 3, 16)
    assert "labels: predictive words, 9 of 3 pairs: hidden sequences" in first
    assert "3/16" in _shown(shown.getvalue())


def test_its_text_is_no_markup_and_obeys_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with running("loading [bold]a\x1b[2Jb"):
        pass
    assert r"loading [bold]a\x1b[2Jb" in _shown(shown.getvalue())


def test_without_a_terminal_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with running("loading") as step:
        assert step is None
    assert capsys.readouterr() == ("", "")


def test_notes_and_warnings_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    with running():
        note("a note")
        warn("how a file is read")
    assert capsys.readouterr().err == "attnscan: a note\nattnscan: how a file is read\n"


def test_a_note_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with running("scoring pairs"):
        note("a note")
    assert re.search(r"\r\x1b\[2Kattnscan: a note *\r?\n", shown.getvalue())
