"""Scans of many pairs, here or spread by callers: state files and per-pair output."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attnscan.errors import StateError
from attnscan.results.files import descriptor
from attnscan.results.stored_file import StoredFile
from attnscan.run.events import PairScores, Progress, Work
from attnscan.run.reading import Ledger, OnePair, on_bad_of
from attnscan.run.requests import FinishShard, HoldAgainst, MakeShard, Rank
from attnscan.run.running import Running, notes_of_inputs, notes_of_unknown_words, opened

if TYPE_CHECKING:
    from attnscan.inputs.pairs import Record
    from attnscan.results.ranking import Ranking
    from attnscan.scan.events import Steps
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.state import ScanState

T = TypeVar("T")
_SAVE_EVERY, _SAVE_IN_STORE = 5.0, 60.0  # seconds between two states of a scan


def rank(request: Rank, running: Running) -> Work[Ranking]:
    """Every head ranked over all pairs.

    Raises: InputError for a pair that cannot be read, or if there is none; StateError, OutputError for files.
    """
    pairs, stack, writer = request.pairs.ready(running.ledger), running.stack, None
    records = pairs.read(running.ledger)  # a file that is not there is told before torch is imported
    from attnscan.scan.per_pair import PerPairWriter

    if request.state is not None:
        stack.enter_context(held(request.state))
    if request.per_pair is not None:
        patterns, kind = [pattern.id for pattern in request.options.patterns], request.options.kind
        how: dict[str, Any] = {"ids": pairs.has_ids(), "kind": kind}
        writer = stack.enter_context(PerPairWriter(request.per_pair, patterns, **how))
    scanner = yield from opened(running, request.options, request.memory)
    from attnscan.scan.local import finished

    state = yield from scanned_here(request, records, running, scanner, writer)
    yield Progress("ranking heads")
    result = yield from _written(finished(scanner, state), writer, tell=request.pair_scores)
    if writer is not None:
        writer.finish(result.signature, result.scores.grid)
    yield from notes_of_inputs(result.signature, bad=running.ledger.bad)
    if isinstance(pairs, OnePair):
        yield from notes_of_unknown_words(scanner, scanner.encode(pairs.pair))
    return result


def scanned_here(
    request: Rank | HoldAgainst,
    records: Iterator[Record],
    running: Running,
    scanner: Scanner,
    writer: PerPairWriter | None = None,
    total: int | None = None,
) -> Work[ScanState]:
    """The state after all pairs. An interrupted scan keeps, where a state is kept, what is done.

    `total` is how many pairs there are, if that is known.
    Raises: as `rank`.
    """
    from attnscan.scan.local import scan, unseen
    from attnscan.scan.state import ScanState
    from attnscan.scan.stored import load_state

    state, on_bad = ScanState(scanner.options), on_bad_of(request.pairs, running.ledger)
    doing = "scoring pairs" if isinstance(request, Rank) else "comparing heads with trees"
    tell = isinstance(request, Rank) and request.pair_scores
    keep = _keeper(request.state, scanner, state, running.ledger)
    yield Progress(doing)
    try:
        if request.state is not None and request.state.exists():
            state = load_state(request.state, scanner)
        rest, wanted = unseen(records, state.seen), writer is not None or tell
        with closing(scan(scanner, rest, state, on_bad, doing=doing, pair_scores=wanted)) as events:
            for event in events:
                if isinstance(event, ScanState):
                    state = event
                    keep(state)
                    continue
                if isinstance(event, PairScores) and writer is not None:
                    writer.write(writer.table(event))
                if isinstance(event, Progress):
                    yield replace(event, total=total)
                elif tell:
                    yield event
    except (KeyboardInterrupt, GeneratorExit):  # the second where whoever takes the events is interrupted
        keep(state, last=True)
        raise
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


def _keeper(place: Path | StoredFile | None, scanner: Scanner, first: ScanState, ledger: Ledger) -> Callable[..., None]:
    """What keeps a state in its file or store. A store that fails ends no scan, and is told."""
    from attnscan.scan.stored import Keeper, save_state

    def save(state: ScanState) -> None:
        if place is not None and state.sums.any is not None:
            save_state(place, state, scanner)

    is_stored = isinstance(place, StoredFile)
    return Keeper(save, _SAVE_IN_STORE if is_stored else _SAVE_EVERY, ledger.say if is_stored else None, first)


@contextmanager
def held(path: Path | StoredFile) -> Iterator[None]:
    """Keep other runs off a state file, until this one ends or is killed.

    The lock is the system's, on a file beside: the state file itself is replaced whenever a state is saved. In a store
    there is none.
    Raises: StateError if another run holds it, or the path is no regular file.
    """
    if isinstance(path, StoredFile):
        yield
        return
    from filelock import FileLock, Timeout

    target = path.resolve()  # through a link: both names mean one file
    try:
        if descriptor(path) is not None or (target.exists() and not stat.S_ISREG(target.stat().st_mode)):
            raise StateError(f"{path} is not a regular file, and so cannot hold a state", "name another --state file")
        beside = target.with_name(f".{target.name}.lock")
        lock = FileLock(beside)
        lock.acquire(timeout=0)
    except Timeout:
        raise StateError(
            f"another run holds the state file {path}", "wait until it ends, or name another --state file"
        ) from None
    except (OSError, ValueError) as error:
        raise StateError(
            f"cannot lock {path}: {getattr(error, 'strerror', None) or error}", "put the --state file elsewhere"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not let go of an open file
            beside.unlink()  # before its release, so that whoever opened it meanwhile finds it gone
        lock.release()


def make_shard(request: MakeShard, running: Running) -> Work[ScanState]:
    """What some pairs add to a ranking. Raises: InputError for a pair that cannot be read."""
    pairs, ledger = request.pairs.ready(running.ledger), running.ledger
    scanner = yield from opened(running, request.options, request.memory)
    from attnscan.scan.local import scanned

    shard = yield from scanned(scanner, pairs.read(ledger), on_bad_of(pairs, ledger))
    name = None if scanner.loaded.given is not None else scanner.loaded.source.name
    return replace(shard, options=replace(request.options, model=name))


def finish_shard(request: FinishShard, running: Running) -> Work[Ranking]:
    """The ranking of all pairs that a shard is made of, with `predictive` asked of a sample of them.

    Raises: EngineError if the model is not that of the shard.
    """
    scanner = yield from opened(running, request.options, request.memory)
    from attnscan.scan.local import finished
    from attnscan.scan.state import Seen

    shard, signature = request.shard, scanner.signature(Seen(), fingerprint=True)
    if (own := shard.signature) is not None:
        shard.check(replace(signature, read_by=own.read_by, device=own.device))
    return (yield from finished(scanner, shard))
