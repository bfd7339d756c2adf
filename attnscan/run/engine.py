"""Runs a request: opens what it needs, tells events up to the result, and closes everything whatever comes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from attnscan.run import ranking, requests, studies
from attnscan.run.events import Event, Result, Work
from attnscan.run.reading import Ledger
from attnscan.run.running import Running, classify, classify_each, load, predictive

if TYPE_CHECKING:
    from attnscan.scan.scanner import Scanner

T = TypeVar("T")
Run = Generator[Event, None, None]


def run(request: requests.Request, scanner: Scanner | None = None) -> Run:
    """Run a request; the last event is its `Result`.

    With a `scanner`, its model is used in place of that of the request's options.

    Raises: AttnscanError, which says what to do about it.
    """
    running = Running(scanner)
    with running.stack:
        value = yield from _relayed(_WORK[type(request)](request, running), running.ledger)
    yield Result(value)


def _relayed(work: Work[T], ledger: Ledger) -> Work[T]:
    """The events of some work, before each of them what was written into a ledger meanwhile."""
    with closing(work):
        while True:
            try:
                event = next(work)
            except StopIteration as ended:
                yield from ledger.take()
                value: T = ended.value
                return value
            yield from ledger.take()
            yield event


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
