"""The commands put together: their help, what a shell completes, and what a pipe gets of them."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from itertools import chain, islice
from pathlib import Path

import pytest
from support.command_line import COLUMNS, A, B, command_named, run
from support.hostile.runs import served_for_a_moment
from support.treebanks import planted_file
from typer.testing import CliRunner

import attnscan
from attnscan.api.option_groups import READING_NAMES
from attnscan.api.signatures import options_of
from attnscan.cli.app import app, main
from attnscan.cli.commands_table import COMMAND_NAMES, COMMANDS, SUBJECTS, Command
from attnscan.inputs.read import shipped_pairs


def test_version() -> None:
    assert run("--version").stdout == f"attnscan {attnscan.__version__}\n"


def test_help_names_every_command() -> None:
    listed = run("--help").stdout.partition("What heads do:")[2]
    commands = re.findall(r"^  (\w+)  ", listed, re.MULTILINE)
    assert commands == list(COMMAND_NAMES)
    assert re.findall(r"^(\w.*):$", listed, re.MULTILINE) == [*SUBJECTS][1:]
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
        ("attnscan ", {*COMMAND_NAMES}),
        ("attnscan classify --pred", {"--predictive", "--predictive-words"}),
        ("attnscan heads --format js", {"json", "jsonl"}),
        ("attnscan heads --pattern ne", {"next-word"}),
        ("attnscan heads --model bun", {"bundled"}),
        ("attnscan models bun", {"bundled"}),
        ("attnscan show --model bundled 5-1", {"5-1", "5-10", "5-11"}),
        ("attnscan head --model bundled 0-2,layer:4", {"0-2,layer:4"}),
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
    "--format",
    "--heads",
    "--held",
    "--output",
    "--pairs",
    "--pattern",
    "--predictive",
    "--top",
}
"""Options whose help or default differs between commands."""


def test_an_option_means_the_same_in_all_commands() -> None:
    options: dict[str, set[tuple[str, str]]] = {}
    for command in COMMAND_NAMES:
        whole = command_named(command)
        context = whole.make_context(command, [], resilient_parsing=True)
        for param in whole.params:
            if param.param_type_name == "option" and not param.hidden:
                options.setdefault(param.opts[0], set()).add(param.get_help_record(context))
    assert {name for name, records in options.items() if len(records) > 1} == OTHERWISE


def _options_in(text: str) -> list[str]:
    """The options that a help lists."""
    listed = text.partition("\nOptions:\n")[2]
    return re.findall(r"^  (?:-\w, )?(--[a-z-]+)", listed, re.MULTILINE)


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_help_has_every_option_once_the_usual_ones_first(command: str) -> None:
    names = chain.from_iterable(param.opts for param in command_named(command).params)
    every = {name for name in names if name.startswith("--")}
    usual_help = run(command, "--help").stdout
    named = _options_in(run(command, "--help-all").stdout)
    shown = _options_in(usual_help)
    assert len(named) == len(set(named))
    assert {*named} == every | {"--help"}
    assert set(shown) <= set(named)
    assert len(shown) <= 25
    first, rest = re.split(r"\n(?=What to read:|Model:|Result:)", usual_help, maxsplit=1)
    assert len(first.splitlines()) <= 25
    assert "[required]" not in rest
    usual = {"--pairs", "--model", "--csv", "--output", "--help"} & {*every, "--help"}
    assert {option for option in usual if f"{option} " in first} == usual


OF_RESULTS = {
    *("--format", "--csv", "--decimal-comma", "--output", "--signature", "--open"),
    *("--top", "--all", "--best", "--nearest", "--matrix", "--heads", "--help-all", "--kind"),
}
"""Options of commands that their functions do not declare.

They write a result, choose what of it is listed, or say otherwise what may be typed.
"""


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_a_command_takes_what_its_function_declares(command: str) -> None:
    """And all of it, but how files are read where no files of pairs are."""
    params = command_named(command).params
    getattr(attnscan, command)
    declared = set(options_of(command).declared)
    typed = {param.name.removeprefix("no_"): param.opts[0] for param in params}
    others = {name for name, option in typed.items() if option not in OF_RESULTS}
    assert others <= declared
    unread = set() if "pairs" in declared else set(READING_NAMES)
    assert declared - unread <= typed.keys() | unread


@pytest.mark.parametrize("command", COMMANDS, ids=COMMAND_NAMES)
def test_help_ends_with_examples(command: Command) -> None:
    shown = run(command.name, "--help").stdout.partition("\nExamples:\n")[2]
    assert shown.splitlines() == [f"  {example}" for example in command.examples]
    assert 1 <= len(command.examples) <= 2
    assert all(example.startswith(f"attnscan {command.name}") for example in command.examples)


EXAMPLES = list(chain.from_iterable(command.examples for command in COMMANDS))


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_help_runs(
    example: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [*islice(shipped_pairs(), 12)]
    monkeypatch.setattr("attnscan.inputs.read.shipped_pairs", lambda: iter(first))
    planted_file(place, "trees.conllu")
    (place / "pairs.csv").write_text("sentence_a,sentence_b\nthe cat sat,a dog ran\n")
    with served_for_a_moment():
        runner = CliRunner(env={"ATTNSCAN_MODEL": "bundled"})
        done = runner.invoke(app, shlex.split(example)[1:])
    assert done.exit_code == 0, done.output
