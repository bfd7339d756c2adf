"""Scans of many pairs, here or on a cluster: with their state files, per-pair output, and what is left at Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from attnscan.errors import OptionError, StateError
from attnscan.results.stored_file import Saving, StoredFile
from attnscan.run import notes
from attnscan.run.events import Interrupted, Note, PairScores, Progress, Skipped, Work
from attnscan.run.opening import Running, opened
from attnscan.run.reading import FilePairs, Ledger, OnePair, on_bad_of
from attnscan.run.requests import Rank, RankFile

if TYPE_CHECKING:
    from attnscan.inputs.pairs import Record
    from attnscan.results.ranking import Ranking
    from attnscan.scan.events import Steps
    from attnscan.scan.local import ScanState
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.scanner import Scanner

T = TypeVar("T")
_SAVE_EVERY, _SAVE_IN_STORE = 5.0, 60.0  # seconds between two states of a scan


def rank(request: Rank, running: Running) -> Work[Ranking]:
    """Every head ranked over all pairs; or, from one machine, over those up to Ctrl-C.

    Raises: InputError for a pair that cannot be read, or if there is none; StateError, OutputError for files.
    """
    if request.cluster is not None:
        return (yield from _rank_on_cluster(request, running))
    pairs, stack, writer = request.pairs.ready(running.ledger), running.stack, None
    records = pairs.read(running.ledger)  # a file that is not there is told before torch is imported
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.state import held

    if request.state is not None:
        stack.enter_context(held(request.state))
    if request.per_pair is not None:
        patterns = [pattern.id for pattern in request.options.patterns]
        writer = stack.enter_context(
            PerPairWriter(request.per_pair, patterns, ids=pairs.ids, heads=request.per_pair_heads)
        )
    scanner = yield from opened(running, request.options, request.memory)
    state = yield from _scanned(request, records, running, scanner, writer)
    yield Progress("ranking heads")
    finishing = state.finishing(scanner, predictive=not running.interrupted)
    result = yield from _written(finishing, writer, tell=request.pair_scores)
    if writer is not None:
        writer.finish(result.signature, result.scores.grid, whole=not running.interrupted)
    yield from notes.of_inputs(result.signature, bad=running.ledger.bad)
    if isinstance(pairs, OnePair):
        yield from notes.of_unknown_words(scanner, scanner.encode(pairs.pair))
    return result


def _scanned(
    request: Rank, records: Iterator[Record], running: Running, scanner: Scanner, writer: PerPairWriter | None
) -> Work[ScanState]:
    """The state after all pairs, or after those up to Ctrl-C; what is written of pairs is of those that it counts."""
    from attnscan.scan.local import ScanState, scan
    from attnscan.scan.state import load_state
    from attnscan.scan.stream import unseen

    state, on_bad = ScanState(), on_bad_of(request.pairs, running.ledger)
    held: list[Callable[[], None]] = []
    keep = _Keeper(request.state, scanner, running.ledger)
    yield Progress("scoring pairs")
    try:
        if request.state is not None and request.state.exists():
            state = load_state(request.state, scanner)
        rest = unseen(records, state.seen, scanner.options)
        wanted = writer is not None or request.pair_scores
        with closing(scan(scanner, rest, state, on_bad, pair_scores=wanted)) as events:
            for event in events:
                if isinstance(event, ScanState):
                    with _undisturbed() if writer is not None else nullcontext():
                        for write in held:
                            write()
                        state, held = event, []
                    keep(state)
                    continue
                if isinstance(event, PairScores) and writer is not None:
                    held.append(partial(writer.write, writer.table(event)))
                if not isinstance(event, PairScores) or request.pair_scores:
                    yield event
    except KeyboardInterrupt as cause:
        if state.sums.any is None:
            raise
        running.interrupted = True
        yield Interrupted(state.seen.read, cause)
    keep(state, last=True)
    return state


def _written(steps: Steps[T], writer: PerPairWriter | None, *, tell: bool) -> Work[T]:
    """The events of some work, with pairs' own scores written, and told only where that is wanted."""
    while True:
        try:
            event = next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
        if isinstance(event, PairScores) and writer is not None:
            writer.write(writer.table(event))
        if not isinstance(event, PairScores) or tell:
            yield event


class _Keeper:
    """Keeps a scan's state in a file or a store, now and then and at the end. A store that fails ends no scan."""

    def __init__(self, place: Path | StoredFile | None, scanner: Scanner, ledger: Ledger) -> None:
        self._place, self._scanner, self._saving = place, scanner, Saving(ledger.say)
        self._every, self._saved = _SAVE_IN_STORE if isinstance(place, StoredFile) else _SAVE_EVERY, time.monotonic()

    def __call__(self, state: ScanState, *, last: bool = False) -> None:
        """Save a state, if it is time for that or it is the `last`. Raises: OutputError for a file."""
        if self._place is None or state.sums.any is None:
            return
        if not last and time.monotonic() - self._saved <= self._every:
            return
        from attnscan.scan.state import save_state

        save = partial(save_state, self._place, state, self._scanner)
        if isinstance(self._place, StoredFile):
            self._saving(save, last=last)
        else:
            save()
        self._saved = time.monotonic()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let a Ctrl-C wait until several steps are done that belong together: all of them, or none."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield  # it is ignored, or comes to another thread
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _rank_on_cluster(request: Rank, running: Running) -> Work[Ranking]:
    """Every head ranked on a cluster; an interrupted scan has no ranking, and raises."""
    from attnscan.scan.cluster.blocks import BlockFiles
    from attnscan.scan.cluster.scan import scan_on_ray
    from attnscan.scan.state import held

    cluster, pairs, ledger, state = request.cluster, request.pairs, running.ledger, request.state
    assert cluster is not None
    if not isinstance(pairs, FilePairs) or not pairs.paths:
        raise OptionError("a cluster reads files, and none is named", "name files that all of its machines can read")
    if request.memory is not None:
        raise OptionError("a cluster cannot run a model that is in memory", "save it where all machines find it")
    blocks = BlockFiles(pairs.paths, pairs.reading, pairs.skip_bad, cluster.block_pairs)
    if state is not None:
        running.stack.enter_context(held(state))
    try:
        result, bad = yield from scan_on_ray(
            request.options,
            blocks,
            cluster,
            per_pair=request.per_pair,
            heads=request.per_pair_heads,
            state=state,
            say=ledger.say,
            note=ledger.note,
        )
    except KeyboardInterrupt:
        with suppress(StateError):
            if state is not None and state.exists():
                yield Note(f"interrupted; the same command goes on from {state}")
        raise
    yield from map(Skipped, bad.first)
    yield from notes.of_inputs(result.signature, bad=bad.count)
    return result


def rank_by_file(request: RankFile) -> Work[Ranking]:
    """Every head ranked by what a scan wrote of each pair. Raises: PairsError if that cannot be read."""
    yield Progress(f"ranking heads by {request.path.name}")
    from attnscan.scan.per_pair_read import rank_file

    return rank_file(request.path, request.patterns)
