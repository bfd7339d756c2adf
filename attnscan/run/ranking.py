"""Scans of many pairs, here or spread by callers: state files and per-pair output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attnscan.errors import StateError
from attnscan.results.files import descriptor
from attnscan.run.events import PairScores, Progress, Work
from attnscan.run.reading import OnePair, on_bad_of
from attnscan.run.requests import FinishShard, HoldAgainst, MakeShard, Rank
from attnscan.run.running import Running, notes_of_inputs, notes_of_unknown_words, notes_of_words, opened

if TYPE_CHECKING:
    from attnscan.inputs.sentence import Record
    from attnscan.results.ranking import Ranking
    from attnscan.scan.events import Steps
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.state import ScanState
    from attnscan.scan.stored import Keeper

T = TypeVar("T")
_LOOKED_AT = 16  # pairs, for how their words are read
_SAVE_EVERY = 5.0  # seconds between two states of a scan


def rank(request: Rank, running: Running) -> Work[Ranking]:
    """Every head ranked over all pairs.

    Raises: InputError for a pair that cannot be read, or if there is none; StateError, OutputError for files.
    """
    pairs, stack, writer = request.pairs.ready(running.ledger), running.stack, None
    records = pairs.read(running.ledger)  # a file that is not there is told before torch is imported
    from attnscan.scan.per_pair import PerPairWriter

    if request.state is not None:
        check_holds_state(request.state)
    if request.per_pair is not None:
        patterns, kind = [pattern.id for pattern in request.options.patterns], request.options.kind
        how: dict[str, Any] = {"ids": pairs.has_ids(), "kind": kind}
        writer = stack.enter_context(PerPairWriter(request.per_pair, patterns, **how))
    scanner = yield from opened(running, request.options, request.memory)
    from attnscan.scan.local import finished

    first = list(islice(records, _LOOKED_AT))
    records = chain(first, records)
    state = yield from scanned_here(request, records, running, scanner, writer)
    yield Progress("ranking heads")
    result = yield from _written(finished(scanner, state), writer, tell=request.pair_scores)
    if writer is not None:
        writer.finish(result.signature, result.scores.grid)
    yield from notes_of_inputs(result.signature, bad=running.ledger.bad)
    if request.options.attention == "encoder" and request.options.words == "tokenizer":
        yield from notes_of_words(scanner, scanner.encode_all([record.pair for record in first]))
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
    keep = _keeper(request.state, scanner, state)
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


def _keeper(path: Path | None, scanner: Scanner, first: ScanState) -> Keeper[ScanState]:
    """What keeps a state in its file, if it has one."""
    from attnscan.scan.stored import Keeper, save_state

    def save(state: ScanState) -> None:
        if path is not None and state.sums.any is not None:
            save_state(path, state, scanner)

    return Keeper(save, _SAVE_EVERY, first)


def check_holds_state(path: Path) -> None:
    """Raises: StateError if a path cannot hold a state, which is replaced as a whole file."""
    if descriptor(path) is not None or (path.exists() and not path.is_file()):
        raise StateError(f"{path} is not a regular file, and so cannot hold a state", "name another --state file")


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
