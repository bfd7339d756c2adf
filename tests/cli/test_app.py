"""The commands put together: their help, what a shell completes, and what a pipe gets of them."""

import inspect
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import COLUMNS, A, B, command_named, run

import attnscan
from attnscan.api.arguments import READING, SCAN, SHARED
from attnscan.cli.app import COMMANDS, LISTED, main


def test_version() -> None:
    assert run("--version").stdout == f"attnscan {attnscan.__version__}\n"


def test_help_names_every_command() -> None:
    listed = run("--help").stdout.partition("What heads do:")[2]
    commands = re.findall(r"^  (\w+)  ", listed, re.MULTILINE)
    assert commands == list(COMMANDS)
    assert len(commands) == 16
    assert re.findall(r"^(\w.*):$", listed, re.MULTILINE) == [*LISTED][1:]
    assert "..." not in listed
    lines = run("classify", "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.long
def test_a_process_prints_data_alone_and_stops_at_a_closed_pipe(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = (
        f"{sys.executable} -m attnscan classify '{A}' '{B}' --model bundled --predictive off --csv"
    )
    script = f"set -o pipefail; {command} | head -1"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, COLUMNS + "\n", "")


def test_a_closed_standard_output_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="standard output is closed; leave it open"):
        main()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize(
    "arguments", [[], ["patterns"], ["classify", "שלום 😀", "--model", "bundled"]], ids=" ".join
)
def test_a_terminal_of_any_encoding_gets_every_line(
    encoding: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of `main`, in this process."""
    written = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors="strict")
    )
    monkeypatch.setattr(sys, "argv", ["attnscan", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # what tests start is to hear of Ctrl-C
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    sys.stdout.flush()
    assert len(written.getvalue().decode(encoding).splitlines()) > 20


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("attnscan ", {*COMMANDS}),
        ("attnscan classify --pred", {"--predictive", "--predictive-words"}),
        ("attnscan heads --format js", {"json", "jsonl"}),
    ],
)
def test_a_shell_completes(line: str, expected: set[str]) -> None:
    words = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_ATTNSCAN_COMPLETE": "complete_bash",
    }
    command = [sys.executable, "-m", "attnscan"]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True)
    assert (set(done.stdout.split()), done.stderr) == (expected, "")


OTHERWISE = {
    "--all",
    "--attention",
    "--heads",
    "--output",
    "--pattern",
    "--predictive",
    "--top",
    "--treebank",
}
"""Options whose help or default differs between commands."""


def test_an_option_means_the_same_in_all_commands() -> None:
    options: dict[str, set[tuple[str, str]]] = {}
    for command in COMMANDS:
        whole = command_named(command)
        context = whole.make_context(command, [], resilient_parsing=True)
        for param in whole.params:
            if param.param_type_name == "option" and not param.hidden:
                options.setdefault(param.opts[0], set()).add(param.get_help_record(context))
    assert {name for name, records in options.items() if len(records) > 1} == OTHERWISE


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_every_option_once_the_usual_ones_first(command: str) -> None:
    every = {
        name
        for param in command_named(command).params
        for name in param.opts
        if name.startswith("--")
    }
    help_of = {how: run(command, how).stdout for how in ("--help-all", "--help")}
    named, shown = (
        re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text.partition("\nOptions:\n")[2], re.MULTILINE)
        for text in help_of.values()
    )
    assert len(named) == len(set(named))
    assert {*named} == every | {"--help"}
    assert set(shown) <= set(named)
    assert len(shown) <= 25
    first, rest = re.split(r"\n(?=What to read:|Model:|Result:)", help_of["--help"], maxsplit=1)
    assert len(first.splitlines()) <= 25
    assert "[required]" not in rest
    usual = {"--pairs", "--model", "--csv", "--output", "--help"} & {*every, "--help"}
    assert {option for option in usual if f"{option} " in first} == usual


OF_RESULTS = {
    *("--format", "--csv", "--decimal-comma", "--output", "--signature", "--open"),
    *("--top", "--all", "--best", "--nearest", "--matrix", "--heads", "--header", "--help-all"),
}
"""Options of commands that are none of their functions: they write a result, or choose what of it
is listed.
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_one_of_its_function(command: str) -> None:
    """And what a function takes of the options of scans, its command takes, too."""
    taken = {
        *inspect.signature(getattr(attnscan, command)).parameters,
        *SCAN.get(command, ()),
        *SHARED,
    }
    if "pairs" in taken:
        taken |= set(READING)
    typed = {
        name: param.opts[0] for param in command_named(command).params for name in [param.name]
    }
    typed = {name.removeprefix("no_"): option for name, option in typed.items()}
    assert {
        name for name, option in typed.items() if name not in taken and option not in OF_RESULTS
    } <= {"skip_bad"}
    assert set(SCAN.get(command, ())) <= typed.keys() | (
        {"profile"} if command == "heads" else set()
    )
