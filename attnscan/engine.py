"""The one-machine engine: a stream of pairs in, sums out, with all that is needed to stop and go on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from attnscan.batch import EncodedInput
from attnscan.errors import InputError
from attnscan.forward import in_halves
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.predictive import Report
from attnscan.results import FloatArray, Help, Ranking
from attnscan.scanner import OnPairs, Scanner
from attnscan.side_by_side import is_too_long, side_by_side
from attnscan.sums import ScoreSums
from attnscan.windows import OnBad, Seen, tokens_of, windows

Found = TypeVar("Found")


@dataclass(frozen=True)
class ScanState:
    """What a scan has found so far: enough to go on from, or to finish with."""

    seen: Seen = field(default_factory=Seen)
    sums: ScoreSums | None = None

    def finish(
        self,
        scanner: Scanner,
        report: Report | None = None,
        on_pairs: OnPairs | None = None,
        *,
        predictive: bool = True,
    ) -> Ranking:
        """The ranking of what has been seen, `predictive` measured on its sample now.

        Raises: InputError if nothing has.
        """
        if self.sums is None:
            raise InputError("there is no pair to score", "give a file with at least one pair that is not skipped")
        sums, seen = self.sums, self.seen
        if predictive and scanner.measure is not None:
            sums += predictive_sums(scanner, seen.sample, report, on_pairs)
        signature = scanner.signature(seen.digest, read=seen.read, truncated=seen.truncated, skipped=seen.skipped)
        return Ranking(sums.finish(), signature)


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    on_pairs: OnPairs | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Generator[ScanState, None, None]:
    """Score every head on a stream of pairs; yields the state after each window of batches.

    With a `start`, `records` begin where it ended. A pair that the model cannot read is handed to `on_bad` and
    skipped, or raised if there is none. `on_pairs` is given each pair's own sums, batch by batch, and
    `on_batch` the number of pairs that are done.

    Raises: InputError, which says where the pair stands.
    """
    state = start or ScanState()
    sums, done = state.sums, state.seen.read
    score = partial(_scored, with_pairs=on_pairs is not None)
    with closing(each_batch(scanner, records, state.seen, on_bad, score)) as batches_scored:
        for batch, found, seen in batches_scored:
            for batch_sums, kept in found:
                if on_pairs is not None:
                    for own in kept:
                        on_pairs(*own)
                sums = batch_sums if sums is None else sums + batch_sums
            done += len(batch)
            if on_batch is not None and batch:
                on_batch(done)
            if seen is not None:
                state, done = ScanState(seen, sums), seen.read
                yield state


def _scored(
    scanner: Scanner, batch: Sequence[EncodedInput], *, with_pairs: bool
) -> tuple[ScoreSums, list[tuple[Sequence[int], Mapping[str, FloatArray]]]]:
    """The sums of a batch; beside them what `on_pairs` is to be given, if it is wanted."""
    kept: list[tuple[Sequence[int], Mapping[str, FloatArray]]] = []
    sums = scanner.score(batch, on_pairs=(lambda *own: kept.append(own)) if with_pairs else None)
    return sums, kept


def each_batch(
    scanner: Scanner,
    records: Iterable[Record],
    seen: Seen,
    on_bad: OnBad | None,
    work: Callable[[Scanner, Sequence[EncodedInput]], Found],
) -> Generator[tuple[list[EncodedInput], list[Found], Seen | None], None, None]:
    """Do some work on each batch of a stream, side by side where that is faster, and halved where memory is short.

    Yields in the order of the stream what was found on each batch and, with the last of a window, what has been seen.
    """
    stream = windows(scanner, records, seen, on_bad)
    first = next(stream, None)
    if first is None:
        return

    def pieces() -> Iterator[tuple[list[EncodedInput], Seen | None]]:
        for window, seen_then in itertools.chain([first], stream):
            *others, last = window or [[]]
            yield from ((batch, None) for batch in others)
            yield last, seen_then

    one_at_a_time = threading.Lock()

    def on_piece(own: Scanner, piece: tuple[list[EncodedInput], Seen | None]) -> list[Found]:
        batch, _ = piece
        if not batch:
            return []
        with one_at_a_time if is_too_long(tokens_of(batch[0]), len(crew)) else nullcontext():
            return list(in_halves(batch, partial(work, own), tokens_of, own.device))

    longest = max((tokens_of(batch[0]) for batch in first[0]), default=1)
    with (
        scanner.crew(len(first[0]), longest) as crew,
        closing(side_by_side(crew, pieces(), on_piece)) as worked,
    ):
        for (batch, seen_then), found in worked:
            yield batch, found, seen_then


def scan_shard(options: ScanOptions, pairs: Iterable[Pair]) -> ScoreSums:
    """Load the model, score every head on `pairs`, and return the sums, which add to other shards'.

    `predictive` is not among them: it is measured on a sample of all shards, by `ScanState.finish`.
    Raises: InputError if there is no pair.
    """
    records = (Record(pair, f"pair {number}") for number, pair in enumerate(pairs, 1))
    sums = None
    with Scanner(options) as scanner:
        for state in scan(scanner, records):
            sums = state.sums
    if sums is None:
        raise InputError("there is no pair to score", "give at least one")
    return sums


def predictive_sums(
    scanner: Scanner,
    sample: Sequence[tuple[str, int, Pair]],
    report: Report | None = None,
    on_pairs: OnPairs | None = None,
) -> ScoreSums:
    """The sums of `predictive` alone, on a sample of pairs as `Seen` holds it."""
    cutting = replace(scanner.options, on_long="truncate")
    inputs = [replace(scanner.encode(pair, cutting), number=number) for _, number, pair in sample]
    helps: list[Help] = []
    if report is not None:
        report(0, len(sample))
    for found in scanner.helps(inputs):
        helps.append(found)
        if report is not None:
            report(len(helps), len(sample))
    total: ScoreSums | None = None
    for one, found in zip(inputs, helps, strict=True):
        sums = scanner.score([one], [found], on_pairs=on_pairs, only=["predictive"])
        total = sums if total is None else total + sums
    assert total is not None
    return total
