"""The one-machine engine: a stream of pairs in, sums out, with all that is needed to stop and go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Place, Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.results.dependencies import Help
from attnscan.results.labels import Labels
from attnscan.results.profile import Profile
from attnscan.results.ranking import Ranking
from attnscan.results.scores import Scores
from attnscan.results.signature import Signature
from attnscan.scan.events import PairScores, Progress, Steps, outcome
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.seen import Drawn, Seen, half, no_pair
from attnscan.scan.stream import Encode, OnBad, Stream
from attnscan.scoring.block_sums import BlockSums
from attnscan.scoring.classes import ClassScorer, class_sums
from attnscan.scoring.label_sums import LabelSums
from attnscan.scoring.profile import Profiler, profile_sums, profiled
from attnscan.scoring.profile_sums import fitted
from attnscan.scoring.resampling import labels_of
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.statements import stated
from attnscan.scoring.sums import Adding, PairSums, ScoreSums
from attnscan.scoring.targets import Targets


@dataclass(frozen=True)
class ScanSums(Adding):
    """Sums over the pairs that scores are told by and, with `split`, over those that heads are ranked by."""

    told: ScoreSums | None = None
    ranked: ScoreSums | None = None
    """None unless options say `split`."""
    profile: BlockSums | None = None
    """None unless options say `profile`."""
    labels: LabelSums | None = None
    """Of the pairs that scores are told by; None unless options say `labelled`."""
    carried: ScoreSums | None = None
    """Beside `labels` by weight: of what heads carry, where that can be had."""
    carried_labels: LabelSums | None = None
    classes: BlockSums | None = None
    """Beside `labels`: attention class by class, for statements, by the reading of what heads do."""

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
            parts = profiled(options.patterns, predictive=signature.predictive != "off" and options.predictive_part)
            profile = Profile(parts, fitted(self.profile.stacked()), signature)
        scores, of_carried = self.told.finish(), None if self.carried is None else self.carried.finish()
        labels = _labels(scores, self.labels, options, norm=options.reading.carried)
        carried = labels if options.reading.carried else _labels(of_carried, self.carried_labels, options, norm=True)
        behaviour = options.behaviour if carried is not None else replace(options.behaviour, by="weight")
        special = not behaviour.among_words
        return Ranking(
            scores,
            signature,
            self.ranked.finish() if self.ranked else None,
            profile,
            labels=labels,
            carried=carried,
            statements=None
            if self.classes is None
            else stated(self.classes.stacked(), special=special, seed=options.seed, of_pairs=True),
            behaviour=behaviour,
        )


@dataclass(frozen=True)
class ScanState:
    """What a scan has found so far: enough to go on from, or to finish with."""

    seen: Seen = field(default_factory=Seen)
    sums: ScanSums = field(default_factory=ScanSums)

    def finish(self, scanner: Scanner) -> Ranking:
        """The ranking of what has been seen, `predictive` measured on its sample now. Raises: as `finishing`."""
        return outcome(self.finishing(scanner))

    def finishing(
        self, scanner: Scanner, doing: str = "pairs asked for predictive words", *, predictive: bool = True
    ) -> Steps[Ranking]:
        """Measure `predictive` on a sample of what has been seen, unless it is not wanted, and rank heads.

        Tells of each pair asked, as what is `doing`, and its scores for `predictive`.
        Raises: InputError if nothing has been seen, or with `split` nothing in one of the halves.
        """
        sums, seen = self.sums, self.seen
        if predictive and scanner.measure is not None and seen.sample and not scanner.options.asks_every_pair:
            sums += yield from predictive_sums(scanner, seen.sample, doing)
        return sums.ranking(scanner.signature(seen, fingerprint=True), scanner.options)


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    encode: Encode | None = None,
    *,
    doing: str = "scoring pairs",
    pair_scores: bool = False,
) -> Generator[ScanState | Progress | PairScores, None, None]:
    """Score every head on a stream of pairs; yields the state after each window of batches.

    Before that it tells of each batch the progress of what is `doing` and, with `pair_scores`, each pair's own sums.
    With a `start`, `records` begin where it ended. A pair that the model cannot read is handed to `on_bad` and
    skipped, or raised if there is none. `encode` tokenizes in place of the scanner.

    Raises: InputError, which says where the pair stands.
    """
    start = start or ScanState()
    sums, stream = start.sums, Stream(scanner, records, on_bad, start.seen, encode)
    with closing(stream.worked(partial(_scored, pair_scores=pair_scores), scanner.crew)) as scored:
        for results, window_done in scored:
            for batch_sums, kept in results:
                yield from kept
                sums += batch_sums
            yield Progress(doing, stream.done)
            if window_done:
                yield ScanState(stream.seen, sums)


def _scored(scanner: Scanner, batch: Sequence[EncodedInput], *, pair_scores: bool) -> tuple[ScanSums, list[PairScores]]:
    """The sums of a batch; beside them those of each pair, if they are wanted."""
    return _kept(scanner, batch) if pair_scores else (summed(scanner, batch), [])


def _kept(
    scanner: Scanner, inputs: Sequence[EncodedInput], helps: Sequence[Help] = (), only: Sequence[str] | None = None
) -> tuple[ScanSums, list[PairScores]]:
    """The sums of some inputs, and beside them those of each."""
    kept: list[PairScores] = []
    sums = summed(scanner, inputs, helps, lambda places, own: kept.append(PairScores(places, own)), only)
    return sums, kept


def summed(
    scanner: Scanner,
    inputs: Sequence[EncodedInput],
    helps: Sequence[Help] = (),
    on_pairs: OnPairs | None = None,
    only: Sequence[str] | None = None,
) -> ScanSums:
    """The sums of some inputs, scored as `Scanner.score` does, each half by itself if heads are ranked by one of them.

    If profiles are fitted, each is asked for `predictive`, where that is wanted.
    """
    if scanner.options.asks_every_pair:
        helps = scanner.helps(inputs)
    if not scanner.options.split:
        return _told(scanner, inputs, helps, on_pairs, only)
    halves: tuple[list[EncodedInput], list[EncodedInput]] = [], []
    for one in inputs:
        halves[half(one.known_pair, scanner.options.seed)].append(one)
    to_choose, to_tell = halves
    sums = _told(scanner, to_tell, helps, on_pairs, only) if to_tell else ScanSums()
    if not to_choose:
        return sums
    return replace(sums, ranked=scanner.score(to_choose, helps, on_pairs=on_pairs, only=only, products=True))


def _told(
    scanner: Scanner,
    inputs: Sequence[EncodedInput],
    helps: Sequence[Help],
    on_pairs: OnPairs | None,
    only: Sequence[str] | None,
) -> ScanSums:
    """The sums of inputs that scores are told by, with those for profiles and labels."""
    options, carrying = scanner.options, scanner.carrying if scanner.options.labelled else ""
    profilers, carried, own, classes = list[Profiler](), list[Scorer](), list[PairSums](), list[ClassScorer]()

    def beside(targets: Targets) -> Consumer:
        consumers: list[Consumer] = []
        if options.profile and only is None:
            helps = targets.helps if options.predictive_part else ()
            profilers.append(Profiler(targets.batch, targets.patterns, helps, special=not options.reading.among_words))
            consumers.append(profilers[0])
        if options.labelled and only is None:
            classes.append(ClassScorer(targets.batch, special=not options.behaviour.among_words))
        if isinstance(carrying, str) or options.reading.carried:
            consumers += classes
        else:
            carried.append(Scorer(targets))
            of_carried: list[Consumer] = [*carried]
            (of_carried if options.behaviour.carried else consumers).extend(classes)
            consumers.append(lambda block: _each(of_carried, carrying.carried(block)))

        return partial(_each, consumers)

    def keep(places: Sequence[Place], sums: PairSums) -> None:
        own.append(sums)
        if on_pairs is not None:
            on_pairs(places, sums)

    told = scanner.score(inputs, helps, beside, keep if options.labelled else on_pairs, only, products=True)
    if not (options.labelled or options.profile):
        return ScanSums(told)
    keys = [encoded.known_pair.key for encoded in inputs]
    profile = profile_sums(profilers[0].sums(), keys) if profilers else None
    if not options.labelled:
        return ScanSums(told, profile=profile)

    by_class = class_sums(classes[0].sums(), keys) if classes else None

    def labels(sums: PairSums) -> LabelSums:
        return LabelSums.of(sums, told.scored, keys, options.threshold)

    if not carried:
        return ScanSums(told, None, profile, labels(own[0]), classes=by_class)
    of_carried = carried[0].sums()
    if only is not None:
        of_carried = replace(of_carried, entropy=of_carried.entropy * 0, words=of_carried.words * 0)
    return ScanSums(told, None, profile, labels(own[0]), of_carried, labels(carried[0].pair_sums()), by_class)


def _each(consumers: Sequence[Consumer], block: AttentionBlock) -> None:
    """Show a block to several consumers."""
    for consumer in consumers:
        consumer(block)


def predictive_sums(scanner: Scanner, sample: Sequence[Drawn], doing: str = "") -> Steps[ScanSums]:
    """The sums of `predictive` alone, on a sample of pairs as `Seen` holds it.

    Tells how many pairs have been asked, as what is `doing`, and each pair's own sums.
    """
    cutting = replace(scanner.options, on_long="truncate")
    inputs = [replace(scanner.encode(pair, cutting), place=place) for _, place, pair in sample]
    helps = yield from scanner.asking(inputs, doing)
    total = ScanSums()
    for encoded, own in zip(inputs, helps, strict=True):
        sums, kept = _kept(scanner, [encoded], [own], ["predictive"])
        yield from kept
        total += _with_votes(scanner, encoded, own, sums)
    return total


def _with_votes(scanner: Scanner, one: EncodedInput, own: Help, sums: ScanSums) -> ScanSums:
    """The sums of `predictive` on an input, with how the input's votes for labels change by it."""
    if sums.labels is None:
        return sums
    after, before = (summed(scanner, [one], helps) for helps in ([own], []))

    def voted(name: str) -> LabelSums | None:
        labels, new, old = (getattr(each, name) for each in (sums, after, before))
        return None if labels is None else replace(labels, votes=new.votes - old.votes)

    return replace(sums, labels=voted("labels"), carried_labels=voted("carried_labels"))


def _labels(scores: Scores | None, sums: LabelSums | None, options: ScanOptions, *, norm: bool) -> Labels | None:
    if scores is None or sums is None:
        return None
    return labels_of(scores, sums, options.threshold, options.seed, norm=norm)
