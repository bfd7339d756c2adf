"""What a user is told beside the result, on standard error: lines, and a bar that says how much is done."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import typer

from attnscan.errors import AttnscanError, InputError, MemoryFullError, OptionError, out_of_memory
from attnscan.inputs.library_calls import distrust
from attnscan.safe_text import plain

if TYPE_CHECKING:
    from attnscan.scan.options import OnProgress

_COULD_KEEP = "; with --state FILE the next run goes on from what is done"
_BAR, _LEAST_BAR = 20, 5  # columns
_TEXT = 68  # columns that text has before a bar has any
_MOST_SKIPPED = 3  # bad records that are told; the others are counted
SKIPS = {
    "predictive words": "--predictive off skips this",
    "sets of heads": "--draws 5 takes fewer sets",
    "writing the page": "--no-neurons makes it smaller",
}
"""By words of what is done: what would leave it out, or shorten it."""


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


class _Said(logging.Handler):
    """Says every record of the library's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one."""
        say(record.getMessage())


@contextmanager
def running(doing: str = "", *, bar: bool = True, skips: Mapping[str, str] = SKIPS) -> Iterator[OnProgress]:
    """What shows the progress of a call of the library; its notes and warnings are said in lines."""
    from attnscan.scan.options import LOG, Note, silent
    from attnscan.views.pictures.look import LackingLetters

    shown, show_warning, level = _Said(), warnings.showwarning, LOG.level

    def say_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, Note | LackingLetters):
            say(str(message))
        else:
            show_warning(message, category, *where)

    LOG.addHandler(shown)
    LOG.setLevel(logging.INFO)
    has_bar = bar and sys.stderr is not None and sys.stderr.isatty()
    try:
        with warnings.catch_warnings(), _drawn(doing, skips) if has_bar else nullcontext(silent) as step:
            for category in (Note, LackingLetters):
                warnings.simplefilter("always", category)
            show_warning = warnings.showwarning
            warnings.showwarning = say_warning  # type: ignore[assignment]
            yield _without_search(step, shows_nothing=not has_bar)
    finally:
        LOG.removeHandler(shown)
        LOG.setLevel(level)
        gc.enable()


def told_of_bad() -> Callable[[InputError], None]:
    """What says of the first bad records that they are skipped."""
    numbers = iter(range(_MOST_SKIPPED))

    def tell(error: InputError) -> None:
        if next(numbers, None) is not None:
            say(f"skipped: {error}")

    return tell


def _without_search(step: OnProgress, *, shows_nothing: bool) -> OnProgress:
    """Search for no unreachable objects while a model is loaded: of a million, nearly all stay to the end."""

    def show(doing: str, done: int | None = None, total: int | None = None) -> None:
        if doing.startswith("loading "):
            gc.disable()
        elif not gc.isenabled():
            _leave_in_place()
            gc.enable()
        step(doing, done, total)

    show.shows_nothing = shows_nothing  # type: ignore[attr-defined]
    return show


@cache  # once, or else what a caller of several commands leaves would pile up
def _leave_in_place() -> None:
    """Search no more through what there is."""
    gc.freeze()


@contextmanager
def _drawn(doing: str, skips: Mapping[str, str]) -> Iterator[OnProgress]:
    """A bar from the first moment on, until all is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    room = min(_BAR, console.width - _TEXT)
    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    columns = (SpinnerColumn("line"), TimeElapsedColumn(), *([BarColumn(room)] if room >= _LEAST_BAR else []), text)
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task(_line(doing, skips), total=None)
        now, last, began = doing, 0, time.monotonic()

        def step(doing: str, done: int | None = None, total: int | None = None) -> None:
            nonlocal task, now, last, began
            is_other = doing != now
            if is_other or (done or 0) < last:  # or the same over again
                bar.remove_task(task)
                task, began = bar.add_task("", total=None), time.monotonic()
            now, last = doing, done or 0
            text = _line(f"{doing}{_counted(last, total, time.monotonic() - began)}", skips)
            bar.update(task, completed=last, total=total, description=text, refresh=is_other)

        yield step


def _counted(done: int, total: int | None, seconds: float) -> str:
    """How much is done, and how long the rest takes; how fast where no total is known."""
    if total is None:
        return f": {done:,}, {done / max(seconds, 1e-3):,.1f} a second" if done else ""
    left = f", {_clock(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return f": {done:,} of {total:,}{left}"


def _clock(seconds: float) -> str:
    """Minutes and seconds, or hours before them.

    >>> _clock(75.4), _clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _line(text: str, skips: Mapping[str, str]) -> str:
    hint = next((f" ({option})" for words, option in skips.items() if words in text), "")
    return plain(f"{text}{hint}")
