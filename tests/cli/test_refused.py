"""Options mean the same everywhere: a command has them, or says why not."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from attnscan.cli.app import COMMANDS, app
from attnscan.cli.refused import SHARED, why_refused

SCORING = [command for command in COMMANDS if command not in ("patterns", "models")]


def _options(command: str) -> set[str]:
    alone = typer.Typer(add_completion=False)
    alone.command()(getattr(import_module(f"attnscan.cli.commands.{command}"), command))
    return {name for param in typer.main.get_command(alone).params for name in param.opts}


@pytest.mark.parametrize("option", SHARED)
@pytest.mark.parametrize("command", SCORING)
def test_a_command_has_an_option_or_says_why_not(command: str, option: str) -> None:
    assert (option in _options(command)) is not bool(why_refused(command, option))


def table() -> str:
    """What the page says of which command has which option."""
    head = ["", *(f"`{option}`" for option in SHARED)]
    rows = [[f"`{command}`", *("yes" if o in _options(command) else "" for o in SHARED)] for command in SCORING]
    lines = [head, ["---"] * len(head), *rows]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)


def test_the_page_has_the_same_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "commands" / "options.md"
    assert table() in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--unit", "--heads", "--without-delimiters"])
def test_the_reason_is_one_line(option: str) -> None:
    result = CliRunner().invoke(app, ["show", "2-0", "a", option, "word"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr
        == f"attnscan: attnscan show has no {option}: {why_refused('show', option)} (attnscan show --help)\n"
    )


def test_classify_shows_the_heads_that_are_named() -> None:
    words = ["classify", "the cat sat", "--model", "bundled", "--predictive", "off", "--heads", "1-8,0-2", "--csv"]
    rows = [line.split(",")[1:3] for line in CliRunner().invoke(app, words).stdout.splitlines()[1:]]
    assert sorted(rows) == [["0", "2"], ["1", "8"]]
    assert "12-0: this model has layers 0 to 5" in CliRunner().invoke(app, [*words, "--heads", "12-0"]).stderr
