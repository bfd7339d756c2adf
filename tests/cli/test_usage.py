"""A wrong use is one line that names a right one, whatever a newcomer types."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import misuse
from typer.testing import CliRunner

from attnscan.cli.app import COMMANDS, app
from attnscan.errors import ModelError
from attnscan.model import sources

SHARED = ("--unit", "--threshold", "--heads", "--without-delimiters", "--norm", "--pattern", "--top", "--id")
SCORING = [command for command in COMMANDS if command not in ("patterns", "models")]


@pytest.fixture
def no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of pairs and of weights are here; a command that begins its work finds no model."""

    def none(*_: Any, **__: Any) -> Any:
        raise ModelError("the work has begun")

    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("sentence_a,sentence_b\nthe cat,a dog\n")
    Path("w.npz").write_bytes(b"")
    monkeypatch.setattr(sources, "choose", none)


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("heads 3-4", 'show 3-4 "A sentence."'),
        ('heads 3-4 "The cat sat."', 'show 3-4 "The cat sat."'),
        ('heads "The cat sat." "A cat ran."', 'classify "The cat sat." "A cat ran."'),
        ("heads next-word", "heads --pattern next-word"),
        ("heads pairs.csv", "heads --pairs pairs.csv"),
        ("heads bert-base-uncased", "heads --model bert-base-uncased"),
        ("heads w.npz", "classify --weights w.npz"),
        ("profile 3-4", "profile --heads 3-4"),
        ("profile pairs.csv", "profile --pairs pairs.csv"),
        ("show 3-4", 'show 3-4 "A sentence."'),
        ("show 3-4 1-8", 'show 3-4,1-8 "A sentence."'),
        ('show "The cat sat."', 'show 0-2 "The cat sat."'),
        ("show 3-4 w.npz", "show 3-4 --weights w.npz"),
        ('explain "The cat sat."', 'explain 0-2 "The cat sat."'),
        ("explain 3-4 pairs.csv", "explain 3-4 --pairs pairs.csv"),
        ("explain", "explain 0-2"),
        ("classify layer:3", 'classify "A sentence." --heads layer:3'),
        ("classify the cat sat on the mat", 'classify "the cat sat on the mat"'),
        ("classify pairs.csv", "classify --pairs pairs.csv"),
        ("predictive 3-4", 'show 3-4 "A sentence."'),
        ("report 3-4 -o a.html", 'report "A sentence." --heads 3-4 -o page.html'),
        ("plot 3-4 -o a.svg", 'plot "A sentence." --kind head --heads 3-4 -o heads.svg'),
        ("ablate next-word", "ablate --pattern next-word"),
        ("similar 3-4", "similar --heads 3-4"),
        ('compare "The cat sat." "A cat."', 'classify "The cat sat." "A cat."'),
        ("models 3-4", 'show 3-4 "A sentence."'),
        ("serve 3-4", 'show 3-4 "A sentence."'),
        ("3-4", 'show 3-4 "A sentence."'),
        ('"The cat sat."', 'classify "The cat sat."'),
        ("pairs.csv --csv", "heads --pairs pairs.csv"),
    ],
)
def test_a_command_that_takes_the_words_is_named_and_begins_its_work(typed: str, meant: str) -> None:
    line = misuse(*shlex.split(typed))
    assert f" attnscan {meant} (attnscan " in line
    done = CliRunner().invoke(app, shlex.split(meant))
    assert done.exit_code == 1 and ("the work has begun" in done.stderr or "w.npz is not a sound" in done.stderr)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("clasify the-cat", "there is no command 'clasify': did you mean 'classify'?"),
        ("zzz", "there is no command 'zzz': there are classify, heads, "),
        ("--modl x", "No such option: --modl"),
        ("classify a --no-such-option", "No such option: --no-such-option"),
        ("classify a --treshold 1", "--threshold"),
        ("classify a --top 0", "'--top'"),
        ("classify a --top", "'--top' requires an argument"),
        ("classify a --csv=yes", "'--csv' does not take a value"),
        ("classify a --unit letter", "'--unit': 'letter' is not one of 'token', 'word'"),
        ("show 2-0 a --unit word", "attnscan show has no --unit; classify, heads, "),
        ("classify a --id x", "attnscan classify has no --id; heads has it"),
        ("classify a b zzz 'd e'", "'zzz' is one argument too many: put each sentence in quotes"),
        ("models bundled zzz", "'zzz' is one argument too many: leave it out"),
        ("compare bundled", "Missing argument 'MODEL_B'. As in: attnscan compare "),
        ("plot", "Missing option '--output' / '-o'. As in: attnscan plot "),
        ("explain 0-2 --all", "--all takes the place of HEADS"),
    ],
)
def test_other_wrong_uses_name_what_is_wrong(typed: str, said: str) -> None:
    assert said in misuse(*shlex.split(typed))


def _options(command: str) -> set[str]:
    alone = typer.Typer(add_completion=False)
    alone.command()(getattr(import_module(f"attnscan.cli.commands.{command}"), command))
    return {name for param in typer.main.get_command(alone).params for name in param.opts}


def test_the_page_of_shared_options_says_which_command_has_which() -> None:
    head = ["", *(f"`{option}`" for option in SHARED)]
    rows = [[f"`{command}`", *("yes" if o in _options(command) else "" for o in SHARED)] for command in SCORING]
    lines = [head, ["---"] * len(head), *rows]
    table = "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)
    page = Path(__file__).parents[2] / "docs" / "commands" / "options.md"
    assert table in page.read_text(encoding="utf-8")
