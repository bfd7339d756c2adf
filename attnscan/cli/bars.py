"""What a terminal shows while a command runs: a bar that says what runs and how much is done, and lines."""

from __future__ import annotations

import gc
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from attnscan.cli.messages import say
from attnscan.safe_text import plain
from attnscan.scan.progress import LOG, Note, OnProgress, silent
from attnscan.views.pictures.look import LackingLetters

if TYPE_CHECKING:
    from attnscan.errors import InputError

_BAR, _LEAST_BAR = 20, 5  # columns
_TEXT = 68  # columns that text has before a bar has any
_MOST_SKIPPED = 3  # bad records that are told; the others are counted
SKIPS = {
    "predictive words": "--predictive off skips this",
    "sets of heads": "--draws 5 takes fewer sets",
    "writing the page": "--no-neurons makes it smaller",
}
"""By words of what is done: what would leave it out, or shorten it."""


class _Said(logging.Handler):
    """Says every record of the library's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say one."""
        say(record.getMessage())


@contextmanager
def running(doing: str = "", *, bar: bool = True, skips: Mapping[str, str] = SKIPS) -> Iterator[OnProgress]:
    """What shows the progress of a call of the library; its notes and warnings are said in lines."""
    said, before = _Said(), LOG.level
    LOG.addHandler(said)
    LOG.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings(), _drawn(doing, skips) if bar else _nothing() as step:
            for category in (Note, LackingLetters):
                warnings.simplefilter("always", category)
            shown = warnings.showwarning

            def say_warning(message: Warning | str, category: type[Warning], *where: object) -> None:
                if issubclass(category, Note | LackingLetters):
                    say(str(message))
                else:
                    shown(message, category, *where)  # type: ignore[arg-type]

            warnings.showwarning = say_warning  # type: ignore[assignment]
            yield _without_search(step)
    finally:
        LOG.removeHandler(said)
        LOG.setLevel(before)
        gc.enable()


def told_of_bad() -> Callable[[InputError], None]:
    """What says of the first bad records that they are skipped."""
    told = 0

    def tell(error: InputError) -> None:
        nonlocal told
        told += 1
        if told <= _MOST_SKIPPED:
            say(f"skipped: {error}")

    return tell


def _without_search(step: OnProgress) -> OnProgress:
    """Search for no unreachable objects while a model is loaded: of a million, nearly all stay to the end."""

    def show(doing: str, done: int | None = None, total: int | None = None) -> None:
        if doing.startswith("loading "):
            gc.disable()
        elif not gc.isenabled():
            _leave_in_place()
            gc.enable()
        step(doing, done, total)

    show.shows_nothing = step is silent  # type: ignore[attr-defined]
    return show


@cache  # once, or else what a caller of several commands leaves would pile up
def _leave_in_place() -> None:
    """Search no more through what there is."""
    gc.freeze()


@contextmanager
def _nothing() -> Iterator[OnProgress]:
    yield silent


@contextmanager
def _drawn(doing: str, skips: Mapping[str, str]) -> Iterator[OnProgress]:
    """A bar from the first moment on, until all is done; nothing at all where standard error is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield silent
        return
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
