"""What a user is told beside the result: on standard error, one line at a time."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

import typer

from attnscan.errors import AttnscanError, MemoryFullError, out_of_memory
from attnscan.inputs.library_calls import distrust
from attnscan.safe_text import plain
from attnscan.views.pictures.look import LackingLetters


def say(line: str) -> None:
    """Tell the user something; nothing if there is nothing to tell, or standard error takes no more."""
    if line:
        with suppress(OSError):  # a full disk or a closed pipe: no reason to lose the result
            typer.echo(f"attnscan: {plain(line)}", err=True)


@contextmanager
def warned() -> Iterator[None]:
    """What a picture warns of is said, in a line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LackingLetters)
        yield
    for warning in caught:
        if issubclass(warning.category, LackingLetters):
            say(str(warning.message))


@contextmanager
def reported() -> Iterator[None]:
    """Errors that a user can mend become one line on standard error and exit code 1."""
    try:
        yield
    except AttnscanError as error:
        say(str(error))
        if isinstance(error, MemoryFullError):
            distrust("memory")
        raise typer.Exit(1) from None
    except BrokenPipeError:
        # The reader has what it wanted. Standard output must not be flushed once more at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(130) from None
    except Exception as error:
        if not out_of_memory(error):
            raise
        say("memory ran out; free some, use fewer --batch-tokens or shorter inputs")
        distrust("memory")
        raise typer.Exit(1) from None


def write_apart_from_libraries() -> None:
    """Let Python write to standard error by a descriptor of its own: what a library writes to 2 can then be hushed."""
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
