"""The one-machine engine: a stream of pairs in, sums out, with all that is needed to stop and go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.inputs.pairs import Pair, Record
from attnscan.results.dependencies import Help
from attnscan.results.profile import Profile
from attnscan.results.ranking import Ranking
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.seen import Seen, half, no_pair
from attnscan.scan.stream import OnBad, OnBatch, Stream
from attnscan.scoring.predictive import Report
from attnscan.scoring.profile import Profiler, profiled
from attnscan.scoring.profile_sums import ProfileSums
from attnscan.scoring.sums import ScoreSums

Sums = TypeVar("Sums", ScoreSums, ProfileSums)


@dataclass(frozen=True)
class ScanSums:
    """What has been summed of pairs: of those that scores are told by and, where heads are ranked by others, of those.

    They add.
    """

    told: ScoreSums | None = None
    ranked: ScoreSums | None = None
    """None unless options say `split`."""
    profile: ProfileSums | None = None
    """None unless options say `profile`."""

    def __add__(self, other: ScanSums) -> ScanSums:
        return ScanSums(*(_added(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))

    @property
    def any(self) -> ScoreSums | None:
        """Either of the two; None if nothing has been summed."""
        return self.told or self.ranked

    def ranking(self, signature: Signature, options: ScanOptions) -> Ranking:
        """Every head ranked.

        Raises: InputError if there was no pair, or with `split` none in one of the halves.
        """
        if self.any is None:
            raise no_pair("to score")
        if self.told is None or (options.split and self.ranked is None):
            raise InputError("--split found no pair in one of the two halves", "give more pairs, or leave it out")
        profile = None
        if self.profile is not None:
            parts = profiled(options.patterns, predictive=signature.predictive != "off")
            profile = Profile(parts, self.profile.finish(), signature)
        return Ranking(self.told.finish(), signature, self.ranked.finish() if self.ranked else None, profile)


@dataclass(frozen=True)
class ScanState:
    """What a scan has found so far: enough to go on from, or to finish with."""

    seen: Seen = field(default_factory=Seen)
    sums: ScanSums = field(default_factory=ScanSums)

    def finish(
        self,
        scanner: Scanner,
        report: Report | None = None,
        on_pairs: OnPairs | None = None,
        *,
        predictive: bool = True,
    ) -> Ranking:
        """The ranking of what has been seen, `predictive` measured on its sample now.

        Raises: InputError if nothing has, or with `split` nothing in one of the halves.
        """
        sums, seen = self.sums, self.seen
        if predictive and scanner.measure is not None and seen.sample and not scanner.options.profile:
            sums += predictive_sums(scanner, seen.sample, report, on_pairs)
        return sums.ranking(scanner.signature(seen, fingerprint=True), scanner.options)


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
                sums += batch_sums
            if window_done:
                yield ScanState(stream.seen, sums)


def _scored(
    scanner: Scanner, batch: Sequence[EncodedInput], *, with_pairs: bool
) -> tuple[ScanSums, list[tuple[Sequence[int], Mapping[str, FloatArray]]]]:
    """The sums of a batch; beside them what `on_pairs` is to be given, if it is wanted."""
    kept: list[tuple[Sequence[int], Mapping[str, FloatArray]]] = []
    return summed(scanner, batch, on_pairs=(lambda *own: kept.append(own)) if with_pairs else None), kept


def summed(scanner: Scanner, inputs: Sequence[EncodedInput], **how: Any) -> ScanSums:
    """The sums of some inputs, scored as `how` says, each half by itself if heads are ranked by one of them."""
    if scanner.options.profile:
        return _profiled(scanner, inputs, **how)
    if not scanner.options.split:
        return ScanSums(scanner.score(inputs, products=True, **how))
    halves: tuple[list[EncodedInput], list[EncodedInput]] = [], []
    for one in inputs:
        halves[half(Pair(*one.sentences), scanner.options.seed)].append(one)
    ranked, told = (scanner.score(own, products=True, **how) if own else None for own in halves)
    return ScanSums(told, ranked)


def _profiled(scanner: Scanner, inputs: Sequence[EncodedInput], **how: Any) -> ScanSums:
    """The sums of some inputs, those for profiles among them, each asked for `predictive` if that is wanted."""
    helps, profilers = list(scanner.helps(inputs)), list[Profiler]()

    def profiler(batch: EncodedBatch) -> Profiler:
        profilers.append(Profiler(batch, scanner.options.patterns, helps))
        return profilers[0]

    told = scanner.score(inputs, helps, products=True, also=profiler, **how)
    return ScanSums(told, profile=profilers[0].sums())


def predictive_sums(
    scanner: Scanner,
    sample: Sequence[tuple[str, int, Pair]],
    report: Report | None = None,
    on_pairs: OnPairs | None = None,
) -> ScanSums:
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
    how = {"on_pairs": on_pairs, "only": ["predictive"]}
    return reduce(add, (summed(scanner, [one], helps=[own], **how) for one, own in asked), ScanSums())


def _added(one: Sums | None, other: Sums | None) -> Sums | None:
    return one + other if one is not None and other is not None else one or other
