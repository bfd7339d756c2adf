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
from pathlib import Path

import pytest
from command_line import COLUMNS, A, B, command_named, misuse, run

import attnscan
from attnscan.api.arguments import READING, SCAN, SHARED
from attnscan.cli.app import COMMANDS, LISTED, main


def test_version() -> None:
    assert run("--version").stdout == f"attnscan {attnscan.__version__}\n"


def test_help_names_every_command_and_every_option_has_a_help_text() -> None:
    listed = run("--help").stdout.partition("What heads do:")[2]
    commands = re.findall(r"^  (\w+)  ", listed, re.MULTILINE)
    assert commands == list(COMMANDS) and len(commands) == 16
    assert re.findall(r"^(\w.*):$", listed, re.MULTILINE) == [*LISTED][1:]
    assert "..." not in listed
    lines = run("classify", "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.long
def test_a_real_process_prints_data_alone_on_stdout_and_stops_at_a_closed_pipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = f"{sys.executable} -m attnscan classify '{A}' '{B}' --model bundled --predictive off --csv"
    script = f"set -o pipefail; {command} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, COLUMNS + "\n", "")


def test_a_closed_standard_output_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="standard output is closed; leave it open"):
        main()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("arguments", [["patterns"], ["classify", "שלום 😀", "--model", "bundled"]], ids=" ".join)
def test_a_terminal_of_any_encoding_gets_every_line(
    encoding: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of `main`, in this process."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors="strict"))
    monkeypatch.setattr(sys, "argv", ["attnscan", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # what tests start is to hear of Ctrl-C
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    sys.stdout.flush()
    assert len(written.getvalue().decode(encoding).splitlines()) > 20


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("zzz", "No such command 'zzz'"),
        ("clasify", "Did you mean 'classify'?"),
        ("classify a --no-such-option", "No such option: --no-such-option"),
        ("classify a --treshold 1", "--threshold"),
        ("classify a --top 0", "'--top'"),
        ("classify a --unit letter", "'--unit': 'letter' is not one of 'token', 'word'"),
        ("show 2-0 a --unit word", "No such option: --unit"),
        ("classify a b zzz 'd e'", "Got unexpected extra argument(s) (zzz d e)"),
        ("compare bundled", "Missing argument 'MODEL_B'"),
        ("plot", "Missing option '--output' / '-o'"),
    ],
)
def test_wrong_uses_name_what_is_wrong(typed: str, said: str) -> None:
    assert said in misuse(*shlex.split(typed))


def options_of(command: str) -> set[str]:
    """The options as they are typed."""
    return {name for param in command_named(command).params for name in param.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_most_users_need_stands_in_the_first_25_lines_of_help(command: str) -> None:
    own, rest = re.split(r"\n(?=What to read:|Model:|Result:)", run(command, "--help").stdout, maxsplit=1)
    assert len(own.splitlines()) <= 25 and "[required]" not in rest
    usual = {"--pairs", "--model", "--csv", "--output", "--help"} & {*options_of(command), "--help"}
    assert {option for option in usual if f"{option} " in own} == usual


OTHERWISE = {"--all", "--attention", "--heads", "--output", "--pattern", "--predictive", "--top", "--treebank"}
"""Options whose help or default differs between commands."""


def test_an_option_has_one_name_meaning_and_default_in_all_commands() -> None:
    told: dict[str, set[tuple[str, str]]] = {}
    for command in COMMANDS:
        whole = command_named(command)
        context = whole.make_context(command, [], resilient_parsing=True)
        for param in whole.params:
            if param.param_type_name == "option" and not param.hidden:
                told.setdefault(param.opts[0], set()).add(param.get_help_record(context))
    assert {name for name, records in told.items() if len(records) > 1} == OTHERWISE


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_every_option_once(command: str) -> None:
    every = {name for name in options_of(command) if name.startswith("--")}
    named, shown = (
        re.findall(r"^  (?:-\w, )?(--[a-z-]+)", run(command, how).stdout.partition("\nOptions:\n")[2], re.MULTILINE)
        for how in ("--help-all", "--help")
    )
    assert len(named) == len(set(named)) and {*named} == every | {"--help"}
    assert set(shown) <= set(named) and len(shown) <= 25


OF_RESULTS = {
    *("--format", "--csv", "--decimal-comma", "--output", "--signature", "--open"),
    *("--top", "--all", "--best", "--nearest", "--matrix", "--heads", "--header", "--help-all"),
}
"""Options of commands that are none of their functions: they write a result, or choose what of it is listed."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_one_of_its_function(command: str) -> None:
    """And what a function takes of the options of scans, its command takes, too."""
    taken = {*inspect.signature(getattr(attnscan, command)).parameters, *SCAN.get(command, ()), *SHARED}
    if "pairs" in taken:
        taken |= set(READING)
    typed = {name: param.opts[0] for param in command_named(command).params for name in [param.name]}
    typed = {name.removeprefix("no_"): option for name, option in typed.items()}
    assert {name for name, option in typed.items() if name not in taken and option not in OF_RESULTS} <= {"skip_bad"}
    assert set(SCAN.get(command, ())) <= typed.keys() | ({"profile"} if command == "heads" else set())
