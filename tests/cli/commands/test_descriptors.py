"""What every command writes to a descriptor that the shell opened, such as `/dev/stdout` in `>> log.csv`."""

from __future__ import annotations

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
    "classify as a screen": (["classify", *ONE, "-f", "table", "-o"], b""),
    "classify --save-weights": (["classify", *ONE, "--csv", "--save-weights"], b"PK"),
    "show as Parquet": (["show", "0-2", *ONE, "-f", "parquet", "-o"], b"PAR1"),
    "report": (["report", *ONE, "-o"], b"<!doctype html>"),
    "heads": (["heads", *MANY, "-p", "next-word", "-f", "csv", "-o"], b"model,"),
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
        done = CliRunner().invoke(app, [*arguments, f"/dev/fd/{number}"])
    assert done.exit_code == 0, done.output
    written = (place / "log").read_bytes()
    assert written.startswith(KEPT + begin) and len(written) > len(KEPT) + 100


def _refused(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["heads", *MANY, "-p", "next-word", *arguments])
    assert (done.exit_code, done.stdout) == (1, "") and "Traceback" not in done.stderr
    return done


def test_what_needs_a_file_of_its_own_says_so(place: Path) -> None:
    with _appended_to(place / "log") as number:
        assert "is not a regular file" in _refused("--per-pair", f"/dev/fd/{number}").stderr
    assert (place / "log").read_bytes() == KEPT
