"""What runs now, how much of it is done, and which option would skip it: one bar, on a terminal's standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnscan.safe_text import plain

if TYPE_CHECKING:
    from attnscan.results.terms import OnStep

_BAR, _LEAST_BAR = 20, 5  # columns
_TEXT = 68  # columns that text has before a bar has any
SKIPS = {"predictive words": "--predictive off skips this", "sets of heads": "--draws 5 takes fewer sets"}
"""By words of what is done: what would leave it out, or shorten it."""


@contextmanager
def working(
    doing: str, total: Callable[[], int | None] | None = None, skips: Mapping[str, str] = SKIPS
) -> Iterator[OnStep]:
    """A bar from the first moment on, until all is done; nothing at all where standard error is no terminal.

    `total` is how much there is of what steps tell without a total of their own.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _doing, _done, _total=None: None
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
        known = None if total is None else total()
        now, last, began = doing, 0, time.monotonic()

        def step(doing: str, done: int, total: int | None = None) -> None:
            nonlocal task, now, last, began
            if doing != now or done < last:  # something else, or the same over again
                bar.remove_task(task)
                task, began = bar.add_task("", total=None), time.monotonic()
            now, last = doing, done
            counted = _counted(done, total or known, time.monotonic() - began)
            bar.update(task, completed=done, total=total or known, description=_line(f"{doing}{counted}", skips))

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
