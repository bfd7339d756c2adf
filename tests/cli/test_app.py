"""The commands put together: their help, and what a shell and a pipe get of them."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COLUMNS, A, B, run
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import COMMANDS, app, main


def test_version() -> None:
    assert run("--version").stdout == f"attnscan {attnscan.__version__}\n"


def test_help_names_every_command_and_every_option_has_a_help_text() -> None:
    commands = re.findall(r"^  (\w+)  ", run("--help").stdout.split("Commands:")[1], re.MULTILINE)
    assert commands == list(COMMANDS) and len(commands) == 14
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


def test_a_real_process_prints_data_alone_on_stdout_and_stops_at_a_closed_pipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = f"{sys.executable} -m attnscan classify '{A}' '{B}' --model bundled --csv"
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
