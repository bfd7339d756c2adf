"""Narrow terminals: columns go, numbers are never cut, and no line is wider than the screen."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from toy import save_toy_bert
from typer.testing import CliRunner

from attnscan.cli.app import app

INPUT = ["the cat sat", "the cat ran"]
WIDE = (12, 12)
SCREENS = {
    "classify": ["classify", *INPUT],
    "every head": ["classify", *INPUT, "--all"],
    "every head for one pattern": ["classify", *INPUT, "--all", "-p", "I"],
    "heads": ["heads", "--pairs"],
    "heads of one pattern": ["heads", "-p", "I", "--pairs"],
    "a card": ["head", "11-11", "--pairs"],
    "a card of one input": ["head", "0-0,0-2", *INPUT],
    "show": ["show", "0-2", *INPUT],
    "one row": ["show", "11-11", *INPUT, "--token", "cat"],
    "explain one": ["explain", "0-2", *INPUT, "--token", "sat"],
    "explain several": ["explain", "layer:11", *INPUT],
    "predictive": ["predictive", *INPUT],
    "ablate": ["ablate", "--draws", "2", "-p", "N", "-p", "X", "--pairs"],
    "ablate each": ["ablate", "--draws", "2", "--heads", "11-11,11-10", "--each", "--pairs"],
    "similar": ["similar", "--pairs"],
    "compare": ["compare", "{model}", "{model}", "--pairs"],
    "profile": ["profile", *INPUT, "--heads", "0-0,11-11"],
    "profile of all": ["profile", *INPUT],
    "profile of one": ["profile", *INPUT, "--heads", "11-11"],
    "models": ["models", "{model}"],
}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    plan = {(0, 0): "next-word", (0, 2): "previous-word", (11, 10): "identical", (11, 11): "cross-sentence"}
    return str(save_toy_bert(tmp_path_factory.mktemp("wide") / "m", *WIDE, plan))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pairs") / "p.csv"
    rows = [f"the cat {verb},the dog {verb} on" for verb in ("sat", "ran", "lay", "saw", "ate", "did")]
    path.write_text("\n".join(["sentence_a,sentence_b", *rows]) + "\n")
    return str(path)


@pytest.mark.usefixtures("each_run_once")
@pytest.mark.parametrize("screen", SCREENS)
def test_no_screen_is_wider_than_the_terminal_or_cuts_a_number(screen: str, wide: str, pairs: str) -> None:
    arguments = [argument.format(model=wide) for argument in SCREENS[screen]]
    arguments += [pairs] * (arguments[-1] == "--pairs")
    if arguments[0] not in ("compare", "models"):
        arguments += ["--model", wide]
    if arguments[0] in ("classify", "heads", "ablate"):
        arguments += ["--predictive", "off"]
    for width in (40, 60):
        result = CliRunner(env={"COLUMNS": str(width)}).invoke(app, arguments)
        assert result.exit_code == 0, result.output
        lines = result.stdout.partition("\nNext: ")[0].splitlines()
        assert max(map(cell_len, lines)) <= width, (width, max(lines, key=cell_len))
        assert not re.search(r"[\d.]…", result.stdout), result.stdout
