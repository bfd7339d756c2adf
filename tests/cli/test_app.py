"""The commands put together: their help, and what a shell and a pipe get of them."""

from __future__ import annotations

import inspect
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command_line import COLUMNS, A, B, misuse, run
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import COMMANDS, _module_and_command, app, main
from attnscan.cli.app import _options as options_of
from attnscan.cli.options import GROUPS
from attnscan.errors import ModelError
from attnscan.model import sources

HIDDEN = {"--labels", "--norm", "--without-delimiters", "--truncate"}
"""Flags of earlier versions."""


def test_version() -> None:
    assert run("--version").stdout == f"attnscan {attnscan.__version__}\n"


def test_help_names_every_command_and_every_option_has_a_help_text() -> None:
    commands = re.findall(r"^  (\w+)  ", run("--help").stdout.split("Commands:")[1], re.MULTILINE)
    assert commands == list(COMMANDS) and len(commands) == 16
    lines = run("classify", "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(command: str) -> None:
    assert COMMANDS[command] in " ".join(run(command, "--help").stdout.split())


def test_a_mistyped_command_is_told_the_nearest() -> None:
    result = CliRunner().invoke(app, ["clasify", A])
    assert result.exit_code == 2 and "did you mean 'classify'?" in result.stderr


def test_without_a_command_the_help_is_shown_line_by_line() -> None:
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", run("--help").stdout)


@pytest.mark.long
def test_a_real_process_prints_data_alone_on_stdout_and_stops_at_a_closed_pipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = f"{sys.executable} -m attnscan classify '{A}' '{B}' --model bundled --predictive off --csv"
    script = f"set -o pipefail; {command} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, COLUMNS + "\n", "")


@pytest.mark.parametrize("arguments", ["patterns", "models"])
def test_a_closed_standard_output_is_one_line(arguments: str) -> None:
    script = f"{sys.executable} -m attnscan {arguments} >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "attnscan: standard output is closed; name a file with -o\n")


UNLIKE_ANY_LATIN = ["classify", "שלום 😀", "--model", "bundled"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("arguments", [["patterns"], UNLIKE_ANY_LATIN], ids=["patterns", "classify"])
def test_a_terminal_of_any_encoding_gets_every_line(
    encoding: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of `main`, in this process."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors="strict"))
    monkeypatch.setattr(sys, "argv", ["attnscan", *arguments])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back afterwards
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # what tests start is to hear of Ctrl-C
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    sys.stdout.flush()
    assert len(written.getvalue().decode(encoding).splitlines()) > 20


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_and_so_does_a_real_one(encoding: str) -> None:
    """`patterns` too: `test_a_terminal_without_utf8_still_gets_every_line` holds that."""
    command = [sys.executable, "-m", "attnscan", *UNLIKE_ANY_LATIN]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert len(done.stdout.decode(encoding).splitlines()) > 20


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
        ("heads 3-4", "head 3-4"),
        ('heads 3-4 "The cat sat."', 'head 3-4 "The cat sat."'),
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
        ("predictive 3-4", "head 3-4"),
        ("report 3-4 -o a.html", 'report "A sentence." --heads 3-4 -o page.html'),
        ("plot 3-4 -o a.svg", 'plot "A sentence." --kind head --heads 3-4 -o heads.svg'),
        ("ablate next-word", "ablate --pattern next-word"),
        ("similar 3-4", "similar --heads 3-4"),
        ('compare "The cat sat." "A cat."', 'classify "The cat sat." "A cat."'),
        ("models 3-4", "head 3-4"),
        ("serve 3-4", "head 3-4"),
        ("3-4", "head 3-4"),
        ('"The cat sat."', 'classify "The cat sat."'),
        ("pairs.csv --csv", "heads --pairs pairs.csv"),
    ],
)
def test_a_command_that_takes_the_words_is_named_and_begins_its_work(typed: str, meant: str) -> None:
    line = misuse(*shlex.split(typed))
    assert f" attnscan {meant} (attnscan " in line
    done = CliRunner().invoke(app, shlex.split(meant))
    assert done.exit_code == 1 and ("the work has begun" in done.stderr or "w.npz is not a valid" in done.stderr)


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
        ("compare bundled", "Missing argument 'MODEL_B'. Example: attnscan compare "),
        ("plot", "Missing option '--output' / '-o'. Example: attnscan plot "),
        ("explain 0-2 --all", "attnscan explain has no --all; classify, syntax have it"),
    ],
)
def test_other_wrong_uses_name_what_is_wrong(typed: str, said: str) -> None:
    assert said in misuse(*shlex.split(typed))


def _names(command: str) -> set[str]:
    """The options by the names of their parameters."""
    return set(inspect.signature(getattr(import_module(f"attnscan.cli.commands.{command}"), command)).parameters)


def test_help_is_in_groups() -> None:
    assert [line for line in run("heads", "--help").stdout.splitlines() if re.fullmatch(r"\w.*:", line)] == [
        *("Options:", "What to read:", "What to score:", "Encoder-decoders:", "Predictive words:"),
        *("Model:", "Result:", "Long runs:", "Clusters:"),
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_most_users_need_stands_in_the_first_24_lines_of_help(command: str) -> None:
    own, rest = re.split(r"\n(?=What to read:|Model:|Result:)", run(command, "--help").stdout, maxsplit=1)
    assert len(own.splitlines()) <= 24 and "[required]" not in rest
    usual = {"--pairs", "--model", "--csv", "--output", "--help"} & {*options_of(command), "--help"}
    assert {option for option in usual if f"{option} " in own} == usual


OTHERWISE = {
    "--all": "every head; of syntax, every row",
    "--attention": "of show one, elsewhere all three as well",
    "--heads": "which heads a command works on",
    "--output": "of plot and report required, in their formats",
    "--pattern": "which patterns a command works on; of profile, functions alone",
    "--predictive": "off by default where a single head or input is looked at",
    "--top": "the N best of what a command lists or switches off",
    "--treebank": "of syntax required",
}
"""Options whose help or default differs between commands, and how."""


def test_an_option_has_one_name_meaning_and_default_in_all_commands() -> None:
    told: dict[str, set[tuple[str, str]]] = {}
    for command in COMMANDS:
        whole = _module_and_command(command)[1]
        context = whole.make_context(command, [], resilient_parsing=True)
        for param in whole.params:
            if param.param_type_name == "option" and not param.hidden:
                told.setdefault(param.opts[0], set()).add(param.get_help_record(context))
    assert {name for name, records in told.items() if len(records) > 1} == OTHERWISE.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_every_option_once(command: str) -> None:
    screen = run(command, "--help").stdout.partition("\nOptions:\n")[2]
    named = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", screen, re.MULTILINE)
    every = {name for name in options_of(command) if name.startswith("--")}
    assert len(named) == len(set(named)) and {*named} == (every - HIDDEN) | {"--help"}


def test_every_option_in_a_group_is_one_of_some_command() -> None:
    assert not {name for group in GROUPS.values() for name in group} - set().union(*map(_names, COMMANDS))
