"""What a user is told beside the result, on standard error: lines, errors, and a bar that says how much is done."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

from attnscan.errors import AttnscanError, OptionError, out_of_memory
from attnscan.text import plain

if TYPE_CHECKING:
    from attnscan.scan.options import OnProgress

COULD_KEEP = "; with --state FILE the next run goes on from what is done"
_UsageError: Any = import_module(typer.BadParameter.__module__).UsageError  # Typer's own, or Click's, by its version


def say(line: str) -> None:
    """Write a line to standard error; nothing if it is empty, or standard error takes no more."""
    if line and sys.stderr is not None:
        with suppress(OSError):  # a full disk or a closed pipe: no reason to lose the result
            print(f"attnscan: {plain(line)}", file=sys.stderr, flush=True)  # not by Typer, which writes into the bar


@contextmanager
def reported(command: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors that a user can mend into a line and an exit code: 2 for wrong usage, else 1; Ctrl-C into 130.

    `command` is what was typed, and `given` are its options.
    """
    try:
        yield
    except _UsageError as error:
        line = " ".join(error.format_message().replace("Value error, ", "").split())
        path = error.ctx.command_path if error.ctx else command
        say(f"{line.removesuffix('.')} ({path} --help)")
        code = 2
    except AttnscanError as error:
        is_option = isinstance(error, OptionError)
        say(f"{error.line} ({command} --help)" if is_option else error.line)
        code = 2 if is_option else 1
    except BrokenPipeError:  # the reader has what it wanted; standard output must not be flushed once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        kept = "; run the same command to resume" if given.get("state") else COULD_KEEP if "state" in given else ""
        say(f"interrupted{kept}")
        code = 130
    except Exception as error:
        if not out_of_memory(error):
            raise
        say("memory ran out; free some, use fewer --batch-tokens or shorter inputs")
        code = 1
    else:
        return
    raise typer.Exit(code)


@contextmanager
def running(doing: str = "") -> Iterator[OnProgress | None]:
    """A bar for the progress of a call of the library, on a terminal; its notes and warnings are said in lines."""
    from attnscan.scan.options import LOG, Note

    has_bar = sys.stderr is not None and sys.stderr.isatty()
    handler, level = logging.Handler(), LOG.level
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings(), _bar(doing) if has_bar else nullcontext() as step:
            warnings.simplefilter("always", Note)
            warnings.showwarning = lambda message, *_: say(str(message))
            yield step
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


@contextmanager
def _bar(doing: str) -> Iterator[OnProgress]:
    """A bar from the first moment on, until all is done."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    columns = SpinnerColumn("line"), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True), text
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(plain(doing), total=None)

        def step(doing: str, done: int | None = None, total: int | None = None) -> None:
            if plain(doing) != bar.tasks[0].description:
                bar.reset(task, description=plain(doing))
                bar.refresh()
            bar.update(task, completed=done or 0, total=total)

        yield step
