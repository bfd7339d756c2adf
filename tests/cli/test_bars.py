"""The bar on a terminal's standard error: there from the first moment on, and nothing where there is no terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from toy import save_toy_bert

from attnscan.cli.messages import running
from attnscan.scan.options import note, warn

PAIRS = "sentence_a,sentence_b\n" + "".join(
    f"the cat {verb},a dog {verb}\n" for verb in ("sat", "ran", "lay", "ate") * 3
)


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


@pytest.mark.long
def test_a_run_on_a_terminal_says_what_it_does(tmp_path: Path) -> None:
    """In a process of its own: the bar is there before torch is."""
    model = save_toy_bert(tmp_path / "toy", 2, 3, {(0, 0): "next-word", (1, 1): "previous-word"})
    (tmp_path / "pairs.csv").write_text(PAIRS)
    pairs = str(tmp_path / "pairs.csv")
    arguments = ["ablate", "--model", str(model), "--pairs", pairs, "--predictive", "off", "--csv"]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "attnscan", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "COLUMNS": "80"}
    ) as run:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
    os.close(ours)
    text = _shown(written.decode())
    assert run.returncode == 0
    assert text.index("looking for a model") < text.index(f"loading {model}"[:20]) < text.index("sets of heads")


def test_notes_and_warnings_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    with running():
        note("a note")
        warn("how a file is read")
    assert capsys.readouterr().err == "attnscan: a note\nattnscan: how a file is read\n"


def _read(terminal: int) -> bytes:
    """What has been written; nothing when the other side is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
