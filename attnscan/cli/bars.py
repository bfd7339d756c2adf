"""Runs on a terminal: one bar that says what runs, how much is done and which option would skip it, and lines."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typer

from attnscan.cli.messages import say
from attnscan.run import events
from attnscan.run.requests import Request
from attnscan.safe_text import plain
from attnscan.scan.events import outcome

if TYPE_CHECKING:
    from attnscan.scan.scanner import Scanner

T = TypeVar("T")
_BAR, _LEAST_BAR = 20, 5  # columns
_TEXT = 68  # columns that text has before a bar has any
_MOST_SKIPPED = 3  # bad records that are told; the others are counted
SKIPS = {"predictive words": "--predictive off skips this", "sets of heads": "--draws 5 takes fewer sets"}
"""By words of what is done: what would leave it out, or shorten it."""


class Step(Protocol):
    """Told what runs now, how much of it is done, and how much there is; None for what is not counted or known."""

    def __call__(self, doing: str, done: int | None = None, total: int | None = None, /) -> None:
        """Show it."""


def answered(
    request: Request,
    hint: str = "",
    take: Callable[[Any], object] | None = None,
    scanner: Scanner | None = None,
    *,
    bar: bool = True,
    skips: Mapping[str, str] = SKIPS,
) -> Any:
    """Run a request, with a bar and lines on standard error.

    `hint` says what would have kept what an interrupted scan has done; `take` is given each of several answers, and
    pairs' own scores if they are told.
    Raises: as `run`.
    """
    from attnscan.run.engine import run  # which takes longer to import than help does to be told

    pairs, has_state = getattr(request, "pairs", None), getattr(request, "state", None) is not None
    shown = _Shown(take)
    shows = working("", None if pairs is None else pairs.how_many, skips) if bar else nullcontext(_silent)
    try:
        with shows as step, shown.shown_by(step) as listen, closing(run(request, scanner)) as told:
            for event in told:
                listen(event)
    except KeyboardInterrupt:
        say(f"interrupted{'; run the same command to resume' if has_state else hint}")
        raise typer.Exit(130) from None
    return shown.result


def done(work: events.Work[T]) -> T:
    """Do part of a run, such as opening models, with a bar and lines on standard error. Raises: as the work."""
    with working("") as step, _Shown().shown_by(step) as listen:
        return outcome(work, listen)


class _Shown:
    """The events of one run as a terminal shows them, and what it came to."""

    def __init__(self, take: Callable[[Any], object] | None = None) -> None:
        self.result: Any = None
        self._take, self._skipped, self._loading = take, 0, False

    @contextmanager
    def shown_by(self, step: Step) -> Iterator[Callable[[events.Event], None]]:
        """What shows one event, with what shows a step."""
        try:
            yield partial(self.show, step)
        finally:
            gc.enable()

    def show(self, step: Step, event: events.Event) -> None:
        """Show one event."""
        if self._loading:
            self._search_again()
        match event:
            case events.Loading(name):
                step(f"loading {name}")
                gc.disable()  # of a million objects that torch and transformers make, nearly all stay to the end
                self._loading = True
            case events.Progress(doing, done, total):
                step(doing, done, total)
            case events.Note(text):
                say(text)
            case events.Skipped(error):
                self._skipped += 1
                if self._skipped <= _MOST_SKIPPED:
                    say(f"skipped: {error}")
            case events.Answer() | events.PairScores() if self._take is not None:
                self._take(event)
            case events.Result(value):
                self.result = value

    def _search_again(self) -> None:
        """Search for unreachable objects again, but not among those that were loaded."""
        self._loading = False
        _leave_in_place()
        gc.enable()


@cache  # once, or else what a caller of several commands leaves would pile up
def _leave_in_place() -> None:
    """Search no more through what there is."""
    gc.freeze()


def _silent(_doing: str, _done: int | None = None, _total: int | None = None) -> None:
    """Show nothing."""


@contextmanager
def working(
    doing: str, total: Callable[[], int | None] | None = None, skips: Mapping[str, str] = SKIPS
) -> Iterator[Step]:
    """A bar from the first moment on, until all is done; nothing at all where standard error is no terminal.

    `total` is how much there is of what steps tell without a total of their own; it is asked for once, if at all.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    room = min(_BAR, console.width - _TEXT)
    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    columns = (SpinnerColumn("line"), TimeElapsedColumn(), *([BarColumn(room)] if room >= _LEAST_BAR else []), text)
    known = cache(total or (lambda: None))
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
            if done is not None:
                total = total or known()
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
