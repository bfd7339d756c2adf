"""The one-machine engine: a stream of pairs in, sums out, with all that is needed to stop and go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Place, Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.results.dependencies import Help
from attnscan.results.ranking import Ranking
from attnscan.scan.events import PairScores, Progress, Steps
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.state import Drawn, ScanState, ScanSums, Seen, half
from attnscan.scan.stream import Encode, OnBad, Stream
from attnscan.scan.trees import tree_sums
from attnscan.scoring.alignment import AlignmentScorer
from attnscan.scoring.classes import ClassScorer, class_sums
from attnscan.scoring.cross import ALIGNED
from attnscan.scoring.profile import Profiler, profile_sums
from attnscan.scoring.resampling import LabelSums
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import PairSums
from attnscan.scoring.targets import Targets


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
    start = start or ScanState(scanner.options)
    sums, stream = start.sums, Stream(scanner, records, on_bad, start.seen, encode)
    with closing(stream.worked(partial(_scored, pair_scores=pair_scores), scanner.crew)) as scored:
        for results, window_done in scored:
            for batch_sums, kept in results:
                yield from kept
                sums += batch_sums
            yield Progress(doing, stream.done)
            if window_done:
                yield ScanState(scanner.options, stream.seen, sums)


def scanned(
    scanner: Scanner,
    records: Iterable[Record],
    on_bad: OnBad | None = None,
    encode: Encode | None = None,
    *,
    doing: str = "scoring pairs",
    pair_scores: bool = False,
) -> Steps[ScanState]:
    """The state after all pairs of a stream, signed; tells what `scan` tells besides states. Raises: as `scan`."""
    state = ScanState(scanner.options)
    for event in scan(scanner, records, None, on_bad, encode, doing=doing, pair_scores=pair_scores):
        if isinstance(event, ScanState):
            state = event
        else:
            yield event
    return with_signature(scanner, state)


def with_signature(scanner: Scanner, state: ScanState) -> ScanState:
    """A state that says which model ran, if a pair was scored."""
    if state.signature is not None or state.sums.any is None:
        return state
    return replace(state, signature=scanner.signature(Seen(), fingerprint=True))


def finished(
    scanner: Scanner,
    state: ScanState,
    doing: str = "pairs asked for predictive words",
    *,
    predictive: bool = True,
) -> Steps[Ranking]:
    """Measure `predictive` on the sample of a state, unless it is not wanted, and rank heads.

    Tells of each pair asked, as what is `doing`, and its scores for `predictive`.
    Raises: as `ScanState.ranking`.
    """
    state, asked = with_signature(scanner, state), None
    if predictive and state.asks:
        asked = yield from predictive_sums(scanner, state.seen.sample, doing)
    return state.ranking(asked)


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

    If profiles are fitted, each is asked for `predictive`, where that is wanted. By `relations`, sentences are held
    against their trees in place of all that.
    """
    if scanner.options.relations is not None:
        return ScanSums(relations=tree_sums(scanner, inputs))
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
    aligners = list[AlignmentScorer]()

    def beside(targets: Targets) -> Consumer:
        aligners.append(AlignmentScorer(targets.batch, [0] * len(to_choose)))
        return aligners[0]

    also = beside if ALIGNED in scanner.options.patterns else None
    ranked = scanner.score(to_choose, helps, also, on_pairs, only, products=True)
    return sums + ScanSums(ranked=ranked, alignment=aligners[0].sums() if aligners else None)


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
    aligners = list[AlignmentScorer]()

    def beside(targets: Targets) -> Consumer:
        consumers: list[Consumer] = []
        if options.profile and only is None:
            helps = targets.helps if options.predictive_part else ()
            special = not options.reading.among_words
            profilers.append(Profiler(targets.batch, targets.patterns, helps, special=special, units=targets.units))
            consumers.append(profilers[0])
        if options.labelled and only is None:
            special = not options.behaviour.among_words
            classes.append(ClassScorer(targets.batch, special=special, units=targets.units))
        if isinstance(carrying, str) or options.reading.carried:
            consumers += classes
        else:
            carried.append(Scorer(targets))
            of_carried: list[Consumer] = [*carried]
            (of_carried if options.behaviour.carried else consumers).extend(classes)
            consumers.append(lambda block: _each(of_carried, carrying.carried(block)))

        if ALIGNED in options.patterns:
            halves = [half(one.known_pair, options.seed) for one in inputs]
            aligners.append(AlignmentScorer(targets.batch, halves))
            consumers.append(aligners[0])
        return partial(_each, consumers)

    def keep(places: Sequence[Place], sums: PairSums) -> None:
        own.append(sums)
        if on_pairs is not None:
            on_pairs(places, sums)

    told = scanner.score(inputs, helps, beside, keep if options.labelled else on_pairs, only, products=True)
    alignment = aligners[0].sums() if aligners else None
    if not (options.labelled or options.profile):
        return ScanSums(told, alignment=alignment)
    keys = [encoded.known_pair.key for encoded in inputs]
    profile = profile_sums(profilers[0].sums(), keys) if profilers else None
    if not options.labelled:
        return ScanSums(told, profile=profile)

    by_class = class_sums(classes[0].sums(), keys) if classes else None

    def labels(sums: PairSums) -> LabelSums:
        return LabelSums.of(sums, told.scored, keys, options.threshold)

    if not carried:
        return ScanSums(told, None, profile, labels(own[0]), classes=by_class, alignment=alignment)
    of_carried = carried[0].sums()
    if only is not None:
        of_carried = replace(of_carried, entropy=of_carried.entropy * 0, words=of_carried.words * 0)
    return ScanSums(
        told, None, profile, labels(own[0]), of_carried, labels(carried[0].pair_sums()), by_class, alignment
    )


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
