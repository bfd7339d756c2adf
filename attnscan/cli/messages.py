"""What a user is told beside the result: on standard error, one line at a time."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any

import typer

from attnscan.errors import AttnscanError, MemoryFullError, OptionError, out_of_memory
from attnscan.inputs.library_calls import distrust
from attnscan.safe_text import plain

_COULD_KEEP = "; with --state FILE the next run goes on from what is done"


def say(line: str) -> None:
    """Tell the user something; nothing if there is nothing to tell, or standard error takes no more."""
    if line:
        with suppress(OSError):  # a full disk or a closed pipe: no reason to lose the result
            typer.echo(f"attnscan: {plain(line)}", err=True)


@contextmanager
def reported(command: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Errors that a user can mend become one line on standard error, and an exit code: 2 for a wrong option, else 1.

    `given` are a command's options, which errors name as they are typed; by Ctrl-C a line says what is kept.
    """
    try:
        yield
    except OptionError as error:
        say(f"{as_typed(error.line, given)} (attnscan {command} --help)")
        raise typer.Exit(2) from None
    except AttnscanError as error:
        say(error.line)
        if isinstance(error, MemoryFullError):
            distrust("memory")
        raise typer.Exit(1) from None
    except BrokenPipeError:
        # The reader has what it wanted. Standard output must not be flushed once more at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        kept = "; run the same command to resume" if given.get("state") else _COULD_KEEP if "state" in given else ""
        say(f"interrupted{kept}")
        raise typer.Exit(130) from None
    except Exception as error:
        if not out_of_memory(error):
            raise
        say("memory ran out; free some, use fewer --batch-tokens or shorter inputs")
        distrust("memory")
        raise typer.Exit(1) from None


def as_typed(line: str, given: Mapping[str, Any]) -> str:
    """An error's line that begins with the name of an option and its value, with the option as it is typed.

    >>> as_typed("batch_tokens is 0; give more", {"batch_tokens": 0})
    '--batch-tokens is 0; give more'
    """
    value = re.match(r"(\w+) is [-\d'\"]", line)
    return f"--{value[1].replace('_', '-')}{line[len(value[1]) :]}" if value and value[1] in given else line


def write_apart_from_libraries() -> None:
    """Let Python write to standard error by a descriptor of its own: what a library writes to 2 can then be hushed.

    Where standard error is closed, 2 leads nowhere: no file that the run opens may become it.
    """
    try:
        os.fstat(2)
    except OSError:
        os.dup2(nowhere := os.open(os.devnull, os.O_WRONLY), 2)
        if nowhere != 2:
            os.close(nowhere)
    try:
        if sys.stderr is None or sys.stderr.fileno() != 2:
            return
        own = os.dup(2)
    except (OSError, ValueError):  # a stand-in without a descriptor, or a descriptor that was closed
        return
    raw = open(own, "wb", buffering=0, closefd=False)  # noqa: SIM115 (it stays open as long as the process)
    sys.stderr = TextIOWrapper(
        raw, sys.stderr.encoding, sys.stderr.errors, line_buffering=True, write_through=True
    )  # nothing is left to be flushed at exit, where that fails
