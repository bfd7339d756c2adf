"""What a user is told beside the result, on standard error: lines, and a bar that says how much is done."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from attnscan.errors import AttnscanError, InputError, MemoryFullError, OptionError, out_of_memory
from attnscan.inputs.library_calls import distrust
from attnscan.safe_text import plain

if TYPE_CHECKING:
    from attnscan.scan.options import OnProgress

COULD_KEEP = "; with --state FILE the next run goes on from what is done"
_MOST_SKIPPED = 3  # bad records that are reported; the others are counted
SKIPS = {
    "predictive words": "--predictive off skips this",
    "sets of heads": "--draws 5 takes fewer sets",
    "writing the page": "--no-neurons makes it smaller",
}
"""By words of what is done: what would leave it out, or shorten it."""


def say(line: str) -> None:
    """Write a line to standard error; nothing if it is empty, or standard error takes no more."""
    if line:
        with suppress(OSError):  # a full disk or a closed pipe: no reason to lose the result
            typer.echo(f"attnscan: {plain(line)}", err=True)


@contextmanager
def reported(command: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors that a user can mend into a line and an exit code: 2 for a wrong option, else 1; Ctrl-C into 130.

    `given` are a command's options, which errors name as they are typed.
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
    except BrokenPipeError:  # the reader has what it wanted; standard output must not be flushed once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        kept = "; run the same command to resume" if given.get("state") else COULD_KEEP if "state" in given else ""
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


def keep_standard_error() -> None:
    """Where standard error is closed, let it lead nowhere: no file that the run opens may become it."""
    try:
        os.fstat(2)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class _Said(logging.Handler):
    """Says every record of the library's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one."""
        say(record.getMessage())


@contextmanager
def running(doing: str = "", *, bar: bool = True, skips: Mapping[str, str] = SKIPS) -> Iterator[OnProgress | None]:
    """A bar for the progress of a call of the library, on a terminal; its notes and warnings are said in lines."""
    from attnscan.scan.options import LOG, Note
    from attnscan.views.pictures.look import LackingLetters

    handler, level = _Said(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    has_bar = bar and sys.stderr is not None and sys.stderr.isatty()
    try:
        with warnings.catch_warnings(), _bar(doing, skips) if has_bar else nullcontext() as step:
            show_warning = warnings.showwarning

            def say_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
                if issubclass(category, Note | LackingLetters):
                    say(str(message))
                else:
                    show_warning(message, category, *where)

            for category in (Note, LackingLetters):
                warnings.simplefilter("always", category)
            warnings.showwarning = say_warning  # type: ignore[assignment]
            yield step
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


def report_bad() -> Callable[[InputError], None]:
    """A function that says of the first bad records that they are skipped."""
    numbers = iter(range(_MOST_SKIPPED))

    def tell(error: InputError) -> None:
        for _ in islice(numbers, 1):
            say(f"skipped: {error.line}")

    return tell


@contextmanager
def _bar(doing: str, skips: Mapping[str, str]) -> Iterator[OnProgress]:
    """A bar from the first moment on, until all is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    def line(text: str) -> str:
        hint = next((f" ({option})" for words, option in skips.items() if words in text), "")
        return plain(f"{text}{hint}")

    console = Console(stderr=True)
    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    bars = [BarColumn(20)] if console.width >= 90 else []  # else the text needs the room
    with Progress(SpinnerColumn("line"), TimeElapsedColumn(), *bars, text, console=console, transient=True) as bar:
        task = bar.add_task(line(doing), total=None)
        now, last, began = doing, 0, time.monotonic()

        def step(doing: str, done: int | None = None, total: int | None = None) -> None:
            nonlocal now, last, began
            is_other = doing != now or (done or 0) < last  # or the same over again
            if is_other:
                bar.reset(task)
                began = time.monotonic()
            now, last = doing, done or 0
            description = line(doing + _counted(last, total, time.monotonic() - began))
            bar.update(task, completed=last, total=total, description=description, refresh=is_other)

        yield step


def _counted(done: int, total: int | None, seconds: float) -> str:
    """How much is done, and how long the rest takes; how fast where no total is known."""
    if total is None:
        return f": {done:,}, {done / max(seconds, 1e-3):,.1f} a second" if done else ""
    left = f", {timedelta(seconds=round(seconds * (total - done) / done))} left" if 0 < done < total else ""
    return f": {done:,} of {total:,}{left}"
