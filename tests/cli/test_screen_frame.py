"""What stands above a screen and below it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.cli.output import input_lines, next_command

PAIRS = "sentence_a\tsentence_b\nthe cat sat\ta cat ran\nI went home\tthe home was red\n"


ONE, FILE = ["I went home."], ["--pairs", "pairs.tsv"]
OFF = ["--predictive", "off"]


@pytest.mark.usefixtures("each_run_once")
@pytest.mark.parametrize(
    ("command", "above", "then"),
    [
        (["classify", *ONE, *OFF], [], ["head"]),
        (["classify", *ONE, *OFF, "--all"], ["A  I went home."], ["head"]),
        (["heads", *FILE, "-p", "next-word"], ["2 pairs of pairs.tsv · toy, 2 layers × 3 heads"], ["head"]),
        (["show", "0-2", *ONE], ["A  I went home."], []),
        (["explain", "0-2", *ONE], ["A  I went home."], []),
        (["explain", "0-2", *FILE], ["pairs  pairs.tsv"], []),
        (["profile", *ONE], ["A  I went home."], []),
        (["predictive", *ONE], ["A  I went home."], []),
        (["head", "0-2", *ONE], ["A  I went home."], []),
        (["ablate", *FILE, "--heads", "0-2", "--draws", "2"], ["pairs  pairs.tsv"], []),
        (["similar", *FILE, "--heads", "0-2"], ["pairs  pairs.tsv"], []),
        (["compare", "./toy", "./toy", *FILE], ["pairs  pairs.tsv"], []),
    ],
    ids=lambda value: " ".join(value),
)
def test_every_screen_says_what_it_is_of_and_the_first_where_to_go_on(
    command: list[str], above: list[str], then: list[str], toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command is not in files, and can be run."""
    monkeypatch.chdir(tmp_path)
    Path("toy").symlink_to(toy)
    Path("pairs.tsv").write_text(PAIRS)
    runner = CliRunner(env={"COLUMNS": "100", "ATTNSCAN_MODEL": "./toy"})
    screen, _, typed = runner.invoke(app, command).stdout.partition("\nNext: attnscan ")
    assert screen.splitlines()[: len(above)] == above
    words = shlex.split(typed)
    assert words[: len(then)] == then and bool(words) == bool(then)
    assert not words or runner.invoke(app, words).exit_code == 0
    runner.invoke(app, [*command, "-o", "screen.txt"])
    assert Path("screen.txt").read_text() == screen


def test_the_next_command_reads_pairs_as_this_one_did(
    toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.tsv").write_text('gj04\t1\t"The cat" sat.\ngj04\t0\n')
    given = ["--pairs", "p.tsv", "--columns", "3", "--no-header", "--quoting", "none", "--skip-bad"]
    runner = CliRunner(env={"COLUMNS": "140", "ATTNSCAN_MODEL": toy})
    last = runner.invoke(app, ["heads", "-p", "next-word", *given]).stdout.splitlines()[-1]
    words = shlex.split(last.removeprefix("Next: attnscan "))
    assert words[:1] == ["head"] and words[2:4] == given[:2] and set(words[4:]) == set(given[2:])
    assert runner.invoke(app, words).exit_code == 0


def test_an_address_is_shown_without_what_is_secret() -> None:
    address = "https://user:secret@host.example/p.csv?token=secret"
    assert input_lines({"pairs": [address, "-"]}) == ["pairs  https://host.example/p.csv, standard input"]
    for gone in (address, "-"):
        assert next_command({"pairs": [gone], "skip_bad": True}, "head", "0-0") == []
