"""What every command writes to a descriptor that the shell opened, such as `/dev/stdout` in `>> log.csv`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from attnscan.cli.app import app

KEPT = b"what was there\n"
PAIRS = "sentence_a,sentence_b\nthe cat sat on the mat,a cat ran\nhe ran to a store,the store was red\n"
ONE = ["the cat sat", "the cat ran", "--model", "./toy", "--predictive", "off"]
MANY = ["--pairs", "pairs.csv", "--model", "./toy", "--seed", "0"]
WRITERS = {
    "classify": (["classify", *ONE, "-f", "csv", "-o"], b"model,"),
    "classify as a screen": (["classify", *ONE, "-f", "table", "-o"], b""),
    "classify --save-weights": (["classify", *ONE, "--csv", "--save-weights"], b"PK"),
    "show as Parquet": (["show", "0-2", *ONE, "-f", "parquet", "-o"], b"PAR1"),
    "report": (["report", *ONE, "-o"], b"<!doctype html>"),
    "plot by a link": (["plot", *ONE, "-o", "link.png"], b"\x89PNG"),
    "explain": (["explain", "0-2", *ONE[:1], *ONE[2:4], "-f", "json", "-o"], b"{"),
    "predictive": (["predictive", *ONE[:4], "-f", "csv", "-o"], b"model,"),
    "heads": (["heads", *MANY, "-p", "next-word", "-f", "csv", "-o"], b"model,"),
    "ablate": (["ablate", *MANY, "--heads", "0-2", "--draws", "2", "-f", "csv", "-o"], b"model,"),
    "similar --matrix": (["similar", *MANY, "--matrix", "-f", "csv", "-o"], b"model,"),
    "compare": (["compare", "./toy", "./toy", *MANY[:2], "-f", "csv", "-o"], b""),
    "models": (["models", "./toy", "-f", "csv", "-o"], b""),
}


@pytest.fixture(autouse=True)
def place(toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pairs.csv").write_text(PAIRS)
    (tmp_path / "toy").symlink_to(toy)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def _appended_to(path: Path) -> Iterator[int]:
    path.write_bytes(KEPT)
    with path.open("ab") as file:
        yield file.fileno()


@pytest.mark.parametrize("what", WRITERS)
def test_what_was_there_is_kept(what: str, place: Path) -> None:
    arguments, begin = WRITERS[what]
    with _appended_to(place / "log") as number:
        if "link" in what:
            (place / "link.png").symlink_to(f"/dev/fd/{number}")
        else:
            arguments = [*arguments, f"/dev/fd/{number}"]
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = (place / "log").read_bytes()
    assert written.startswith(KEPT + begin) and len(written) > len(KEPT) + 100


def _refused(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["heads", *MANY, "-p", "next-word", *arguments])
    assert (done.exit_code, done.stdout) == (1, "") and "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("option", ["--state", "--per-pair"])
def test_what_needs_a_file_of_its_own_says_so(option: str, place: Path) -> None:
    with _appended_to(place / "log") as number:
        link = place / "link.parquet"
        link.symlink_to(f"/dev/fd/{number}")
        assert "is not a regular file" in _refused(option, str(link)).stderr
    assert (place / "log").read_bytes() == KEPT


def test_parquet_and_pages_are_not_for_a_terminal_by_any_name() -> None:
    _, terminal = os.openpty()
    name = f"/dev/fd/{terminal}"
    assert "Parquet cannot be shown on a terminal" in _refused("-f", "parquet", "-o", name).stderr
    done = CliRunner().invoke(app, ["report", *ONE, "-o", name])
    assert done.exit_code == 2 and "a page cannot be shown on a terminal" in done.stderr
    os.close(terminal)
