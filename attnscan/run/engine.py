"""Runs a request: opens what it needs, tells events up to the result, and closes everything whatever comes.

Ctrl-C is an exception like any other, but where what was done counts: there it is told as `Interrupted`, and the last
event is a `Partial`. Where it falls into whoever takes events, it is to be thrown into the run, as `deliver` does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from attnscan.run import ranking, requests, studies
from attnscan.run.events import Event, Partial, Result, Work
from attnscan.run.reading import Ledger
from attnscan.run.running import Running, classify, classify_each, load, predictive

if TYPE_CHECKING:
    from attnscan.scan.scanner import Scanner

T = TypeVar("T")
Run = Generator[Event, None, None]


def run(request: requests.Request, scanner: Scanner | None = None) -> Run:
    """Run a request; the last event is its `Result`, or after Ctrl-C its `Partial`.

    With a `scanner`, its model is used in place of that of the request's options.

    Raises: AttnscanError, which says what to do about it; KeyboardInterrupt if nothing was done that counts.
    """
    running = Running(scanner)
    with running.stack:
        value = yield from _relayed(_WORK[type(request)](request, running), running.ledger)
    yield (Partial if running.interrupted else Result)(value)


def deliver(events: Run, listen: Callable[[Event], object]) -> None:
    """Hand each event to `listen`; Ctrl-C that falls into it is thrown into the run, and ends it as elsewhere."""
    with closing(events):
        take: Callable[[], Event] = partial(next, events)
        while True:
            try:
                event = take()
            except StopIteration:
                return
            take = partial(next, events)
            try:
                listen(event)
            except KeyboardInterrupt as error:
                take = partial(events.throw, error)


def _relayed(work: Work[T], ledger: Ledger) -> Work[T]:
    """The events of some work, before each of them what was written into a ledger meanwhile."""
    take: Callable[[], Event] = partial(next, work)
    with closing(work):
        while True:
            try:
                event = take()
            except StopIteration as ended:
                yield from ledger.take()
                value: T = ended.value
                return value
            take = partial(next, work)
            try:
                yield from ledger.take()
                yield event
            except KeyboardInterrupt as error:
                take = partial(work.throw, error)


_WORK: dict[type[requests.Request], Callable[[Any, Running], Work[object]]] = {
    requests.Classify: classify,
    requests.ClassifyEach: classify_each,
    requests.Predictive: predictive,
    requests.Rank: ranking.rank,
    requests.MakeShard: ranking.make_shard,
    requests.FinishShard: ranking.finish_shard,
    requests.Explain: studies.explain,
    requests.Ablate: studies.ablate,
    requests.LookAt: studies.look_at,
    requests.Similar: studies.similar,
    requests.HoldAgainst: studies.hold_against,
    requests.ReadTrees: studies.read_trees,
    requests.Compare: studies.compare,
    requests.Examine: studies.examine,
    requests.Load: load,
}
"""What does the work of each kind of request. Torch is imported when a model is loaded."""
