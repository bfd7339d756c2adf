"""The one-machine engine: a stream of pairs in, sums out, with all that is needed to stop and go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Pair, Record
from attnscan.results.dependencies import Help
from attnscan.results.ranking import Ranking
from attnscan.results.scores import FloatArray
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.seen import Seen, no_pair
from attnscan.scan.stream import OnBad, OnBatch, Stream
from attnscan.scoring.predictive import Report
from attnscan.scoring.sums import ScoreSums


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
            raise no_pair("to score")
        sums, seen = self.sums, self.seen
        if predictive and scanner.measure is not None:
            sums += predictive_sums(scanner, seen.sample, report, on_pairs)
        return Ranking(sums.finish(), scanner.signature(seen))


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    on_pairs: OnPairs | None = None,
    on_batch: OnBatch | None = None,
) -> Generator[ScanState, None, None]:
    """Score every head on a stream of pairs; yields the state after each window of batches.

    With a `start`, `records` begin where it ended. A pair that the model cannot read is handed to `on_bad` and
    skipped, or raised if there is none. `on_pairs` is given each pair's own sums, batch by batch, and
    `on_batch` the number of pairs that are done.

    Raises: InputError, which says where the pair stands.
    """
    start = start or ScanState()
    sums, stream = start.sums, Stream(scanner, records, on_bad, on_batch, start.seen)
    with closing(stream.worked(partial(_scored, with_pairs=on_pairs is not None))) as scored:
        for results, window_done in scored:
            for batch_sums, kept in results:
                if on_pairs is not None:
                    for own in kept:
                        on_pairs(*own)
                sums = batch_sums if sums is None else sums + batch_sums
            if window_done:
                yield ScanState(stream.seen, sums)


def _scored(
    scanner: Scanner, batch: Sequence[EncodedInput], *, with_pairs: bool
) -> tuple[ScoreSums, list[tuple[Sequence[int], Mapping[str, FloatArray]]]]:
    """The sums of a batch; beside them what `on_pairs` is to be given, if it is wanted."""
    kept: list[tuple[Sequence[int], Mapping[str, FloatArray]]] = []
    sums = scanner.score(batch, on_pairs=(lambda *own: kept.append(own)) if with_pairs else None)
    return sums, kept


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
    asked = zip(inputs, helps, strict=True)
    return reduce(add, (scanner.score([one], [own], on_pairs=on_pairs, only=["predictive"]) for one, own in asked))
