"""No file is written over another one that the same run reads or writes."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from command_line import command_named
from typer.testing import CliRunner

from attnscan.cli.app import COMMANDS, app
from attnscan.cli.output import READ, WRITTEN

OLD = "of the user"
MANY = ["--pairs", "pairs.csv"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that are all of the user's, none of which is weights or the like: nothing gets as far as to read them."""
    for name in ("pairs.csv", "trees.conllu", "w.npz", "every.parquet", "links.txt", "mine.py"):
        (tmp_path / name).write_text(OLD)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.tsv").write_text(OLD)
    (tmp_path / "to-pairs.json").symlink_to("pairs.csv")
    (tmp_path / "same.html").hardlink_to(tmp_path / "w.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _refusal(place: Path, *arguments: str) -> str:
    """What is said of a run that is refused, after which every file is as it was."""
    before = {path: path.lstat().st_ino for path in place.rglob("*")}
    done = CliRunner().invoke(app, list(arguments))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert {path: path.lstat().st_ino for path in place.rglob("*")} == before
    assert all(path.read_text() == OLD for path in before if path.is_file())
    return " ".join(done.stderr.replace("│", " ").split())


def test_every_option_that_names_a_file_has_a_role() -> None:
    """So that no command can forget to check."""
    for command in COMMANDS:
        for option in command_named(command).params:
            annotation = option.type_descriptor.annotation
            names_file = Path in (annotation, *get_args(annotation)) or "FILE" in str(option.metavar)
            assert not names_file or option.name in (*READ, *WRITTEN), f"{command}: {option.name}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["heads", *MANY, "-o", "pairs.csv"],
        ["heads", *MANY, "-o", "to-pairs.json"],
        ["heads", *MANY, "--state", "to-pairs.json"],
        ["heads", *MANY, "--per-pair", "pairs.csv"],
        ["heads", *MANY, "--signature", "pairs.csv"],
        ["heads", "--pairs", "more", "-o", "more/x.tsv"],
        ["heads", "--pairs", "m*/?.tsv", "-o", "more/x.tsv"],
        ["heads", "--pairs", "file://{place}/pairs.csv", "-o", "pairs.csv"],
        ["heads", "--state", "new.csv", "-o", "new.csv"],
        ["heads", "-o", "new.parquet", "--per-pair", "./new.parquet"],
        ["heads", "--pattern", "mine.py:two_back", "-o", "mine.py"],
        ["heads", *MANY, "--alignments", "links.txt", "--attention", "cross", "-o", "links.txt"],
        ["syntax", "--treebank", "trees.conllu", "-o", "trees.conllu"],
        ["report", "--weights", "w.npz", "-o", "same.html"],
        ["classify", "--weights", "w.npz", "-o", "w.npz"],
    ],
    ids=" ".join,
)
def test_no_file_is_read_and_written(place: Path, arguments: list[str]) -> None:
    arguments = [argument.format(place=place) for argument in arguments]
    assert "is named twice, and would be overwritten" in _refusal(place, *arguments)
