"""The one-machine engine: a stream of pairs, in windows and batches, to sums, with what is needed to stop and go on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from attnscan.errors import InputError, StateError, TooLongError
from attnscan.inputs.batch import EncodedInput, batches
from attnscan.inputs.sentence import Place, Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.running import in_halves, is_too_long, side_by_side
from attnscan.results.dependencies import Help
from attnscan.results.heads import HeadScores
from attnscan.results.scores import FloatArray
from attnscan.results.terms import counted
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.state import ScanState, ScanSums, Seen, half
from attnscan.scan.trees import tree_sums
from attnscan.scoring.alignment import AlignmentScorer
from attnscan.scoring.blocks import Blocks
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.cross import ALIGNED
from attnscan.scoring.predictive import Questions, within_budget
from attnscan.scoring.targets import Targets

_BATCHES_IN_WINDOW = 4, 16  # sorted together by length, so that like ones meet; a state is saved between windows
_TOKENS_IN_WINDOW = 16_384  # enough: more batches than the fewest are taken up to so many tokens

_TOGETHER, _CHARACTERS_TOGETHER = 256, 1 << 16  # tokenized at once: some milliseconds, in which no Ctrl-C is heard

OnBad = Callable[[InputError], None]
Window = list[list[EncodedInput]]
Result = TypeVar("Result")


@dataclass
class Stream:
    """Pairs on their way through a model, and how far they are.

    A pair that the model cannot read is handed to `on_bad` and skipped, or raised if there is none.
    """

    scanner: Scanner
    records: Iterable[Record]
    on_bad: OnBad | None = None
    seen: Seen = field(default_factory=Seen)
    """By the end of the last window that is done; before the first, what was read of the same pairs earlier."""

    done: int = field(init=False)
    """How many pairs are: all that were read by the end of the last window, and those of later batches."""

    def __post_init__(self) -> None:
        self.done = self.seen.read

    def windows(self) -> Generator[Window, None, None]:
        """A few batches at a time."""
        for window, seen in self._windows():
            yield window
            self._count(sum(map(len, window)), seen)

    def worked(
        self, work: Callable[[Sequence[EncodedInput]], Result], *others: Scanner
    ) -> Generator[tuple[list[Result], bool], None, None]:
        """Do some work on each batch, side by side where that is faster, and halved where memory is short.

        `others` are further scanners that the work needs.
        Yields in the order of the stream what came of each batch, and whether a window is done with it.
        """
        windows = self._windows()
        first = next(windows, None)
        if first is None:
            return
        one_at_a_time, scanners = threading.Lock(), (self.scanner, *others)

        def on_piece(piece: tuple[list[EncodedInput], Seen | None]) -> list[Result]:
            batch, _ = piece
            if not batch:
                return []
            with one_at_a_time if is_too_long(tokens_of(batch[0]), workers) else nullcontext():
                return list(in_halves(batch, work, tokens_of, self.scanner.device))

        longest = max((tokens_of(batch[0]) for batch in first[0]), default=1)
        workers = min(scanner.workers(len(first[0]), longest) for scanner in scanners)
        pieces = _pieces(itertools.chain([first], windows))
        with closing(side_by_side(workers, pieces, on_piece)) as worked:
            for (batch, seen), results in worked:
                self._count(len(batch), seen)
                yield results, seen is not None

    def _count(self, pairs: int, seen: Seen | None) -> None:
        """So many more pairs are done and, with a `seen`, a window is."""
        self.done += pairs
        if seen is not None:
            self.seen, self.done = seen, seen.read

    def _windows(self) -> Iterator[tuple[Window, Seen]]:
        """The stream's batches, a few at a time, with what has been seen by their end."""
        room = self.scanner.loaded.room(self.scanner.options.batch_tokens)
        fewest, most = (room.tokens * count for count in _BATCHES_IN_WINDOW)
        for inputs, seen in self._tokenized(min(most, max(fewest, _TOKENS_IN_WINDOW))):
            yield list(batches(inputs, room)), seen

    def _tokenized(self, limit: int) -> Iterator[tuple[list[EncodedInput], Seen]]:
        """Tokenized inputs in windows of about `limit` tokens, each with what has been seen by its end."""
        inputs: list[EncodedInput] = []
        seen, tokens = self.seen, 0
        for record, encoded in self._encoded():
            truncated, skipped = encoded is not None and encoded.truncated, encoded is None
            tokens_read = 0 if encoded is None else len(encoded.tokens)
            seen = seen.and_then(record, self.scanner.options, truncated=truncated, skipped=skipped, tokens=tokens_read)
            if encoded is not None:
                inputs.append(replace(encoded, number=seen.read, place=record.place))
                tokens += len(encoded.tokens)
            if tokens >= limit:
                yield inputs, seen
                inputs, tokens = [], 0
        if inputs or seen.read:
            yield inputs, seen

    def _encoded(self) -> Iterator[tuple[Record, EncodedInput | None]]:
        """Each record with its input, or None if it is to be skipped."""
        for records in together(self.records):
            for record, encoded in zip(
                records, self.scanner.encode_all([record.pair for record in records]), strict=True
            ):
                if isinstance(encoded, InputError):
                    self._skip(record, encoded)
                    yield record, None
                else:
                    yield record, encoded

    def _skip(self, record: Record, error: InputError) -> None:
        """Leave out a record that cannot be read. Raises: the error, which says where it stands, if it is to stop."""
        if isinstance(error, TooLongError) and self.scanner.options.on_long == "skip":
            return
        where = f"{record.where}: {error.what}"
        if isinstance(error, TooLongError):
            raise TooLongError(where, "shorten it, or pass --on-long truncate or skip") from None
        placed = type(error)(where, error.remedy)
        if self.on_bad is None:
            raise placed from None
        self.on_bad(placed)


def together(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in parts that are tokenized at once; what stops the reading is raised behind those before it."""
    run, characters, stopped = list[Record](), 0, None
    try:
        for record in records:
            run.append(record)
            characters += sum(map(len, record.pair.texts))
            if len(run) >= _TOGETHER or characters >= _CHARACTERS_TOGETHER:
                yield run
                run, characters = [], 0
    except Exception as error:  # whatever it is, it belongs behind what was read
        stopped = error
    if run:
        yield run
    if stopped is not None:
        raise stopped


def _pieces(windows: Iterable[tuple[Window, Seen]]) -> Iterator[tuple[list[EncodedInput], Seen | None]]:
    """The batches of some windows one by one; the last of a window, which may be empty, with what has been seen."""
    for window, seen in windows:
        *others, last = window or [[]]
        yield from ((batch, None) for batch in others)
        yield last, seen


def unseen(records: Iterable[Record], seen: Seen) -> Iterator[Record]:
    """The records behind those that a state has seen, once those are found to be the same.

    Raises: StateError if they are not.
    """
    rest, again = iter(records), Seen()
    for record in itertools.islice(rest, seen.read):
        again = again.joined(Seen.of(record.pair), 0)
    if (again.read, again.digest) != (seen.read, seen.digest):
        raise StateError("the state belongs to other pairs than these", "give the same files in the same order")
    yield from rest


def tokens_of(encoded: EncodedInput) -> int:
    """How long an input is."""
    return len(encoded.tokens)


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    *,
    doing: str = "scoring pairs",
    on_pairs: OnPairs | None = None,
    keep: Callable[[ScanState], object] | None = None,
    total: int | None = None,
) -> ScanState:
    """Score every head on a stream of pairs, and return what was summed; tells of each batch what it is `doing`.

    With a `start`, `records` begin where it ended. A pair that the model cannot read is handed to `on_bad` and
    skipped, or raised if there is none. `on_pairs` is given each pair's own sums in the order of the pairs, and `keep`
    the state after each window of batches.

    Raises: InputError, which says where the pair stands.
    """
    state = start or ScanState(scanner.options)
    stream, window = Stream(scanner, records, on_bad, state.seen), ScanSums()
    work = partial(_scored, scanner, pair_scores=on_pairs is not None)
    with closing(stream.worked(work)) as scored:
        for results, window_done in scored:
            for batch_sums, of_pairs in results:
                for places, own in of_pairs:
                    if on_pairs is not None:
                        on_pairs(places, own)
                window += batch_sums
            scanner.tell(doing, stream.done, total)
            if window_done:
                state = ScanState(scanner.options, stream.seen, state.sums + window)
                window = ScanSums()
                if keep is not None:
                    keep(state)
    return state


def with_signature(scanner: Scanner, state: ScanState) -> ScanState:
    """A state that says which model ran, if a pair was scored."""
    if state.signature is not None or state.sums.shape is None:
        return state
    return replace(state, signature=scanner.signature(Seen(), fingerprint=True))


def finished(
    scanner: Scanner,
    state: ScanState,
    doing: str = "",
    on_pairs: OnPairs | None = None,
) -> HeadScores:
    """Measure `predictive` on the sample of a state, and rank heads.

    Tells of hidden sequences, `doing` first; `on_pairs` is given each asked pair's scores for `predictive`.
    Raises: as `ScanState.ranking`.
    """
    state, asked = with_signature(scanner, state), None
    if state.asks:
        asked = predictive_sums(scanner, state.seen, doing, on_pairs)
    return state.ranking(asked)


_OfPairs = list[tuple[Sequence[Place], Mapping[str, FloatArray]]]
"""The places of some pairs, and their own sums."""


def _scored(scanner: Scanner, batch: Sequence[EncodedInput], *, pair_scores: bool) -> tuple[ScanSums, _OfPairs]:
    """The sums of a batch; beside them those of each pair, if they are wanted."""
    of_pairs: _OfPairs = []
    keep: OnPairs | None = (lambda places, own: of_pairs.append((places, own))) if pair_scores else None
    return summed(scanner, batch, (), keep), of_pairs


def summed(
    scanner: Scanner,
    inputs: Sequence[EncodedInput],
    helps: Sequence[Help] = (),
    on_pairs: OnPairs | None = None,
    only: Sequence[str] | None = None,
) -> ScanSums:
    """The sums of some inputs, scored as `Scanner.score` does, each half by itself if heads are ranked by one of them.

    By `relations`, sentences are held against their trees in place of all that.
    """
    if scanner.options.relations is not None:
        return ScanSums(relations=tree_sums(scanner, inputs))
    if not scanner.options.split:
        return ScanSums(_blocks(scanner, inputs, helps, on_pairs, only))
    halves: tuple[list[EncodedInput], list[EncodedInput]] = [], []
    for encoded in inputs:
        halves[half(encoded.known_pair, scanner.options.seed)].append(encoded)
    to_choose, to_tell = (_blocks(scanner, own, helps, on_pairs, only) if own else None for own in halves)
    return ScanSums(to_tell, to_choose)


def _blocks(
    scanner: Scanner,
    inputs: Sequence[EncodedInput],
    helps: Sequence[Help],
    on_pairs: OnPairs | None,
    only: Sequence[str] | None,
) -> Blocks:
    """What inputs say of scores and, if that was asked for, of labels and of links."""
    options = scanner.options
    special, halves = not options.reading.among_words, [half(encoded.known_pair, options.seed) for encoded in inputs]
    classes, aligners = list[ClassScorer](), list[AlignmentScorer]()

    def beside(targets: Targets) -> Consumer:
        consumers: list[Consumer] = []
        if options.labelled and only is None:
            classes.append(ClassScorer(targets.batch, special=special, units=targets.units))
            consumers.append(classes[0])
        if ALIGNED in options.patterns:
            aligners.append(AlignmentScorer(targets.batch, halves))
            consumers.append(aligners[0])
        return partial(each, consumers)

    sums = dict(scanner.score(inputs, helps, beside, only))
    for of_classes in classes:
        sums |= of_classes.sums()
    if aligners:
        sums["links"] = aligners[0].sums()
    if on_pairs is not None:
        on_pairs([encoded.place for encoded in inputs], sums)
    return Blocks.of([encoded.known_pair.key for encoded in inputs], sums)


def each(consumers: Sequence[Consumer], block: AttentionBlock) -> None:
    """Show a block to several consumers."""
    for consumer in consumers:
        consumer(block)


def predictive_sums(scanner: Scanner, seen: Seen, doing: str = "", on_pairs: OnPairs | None = None) -> ScanSums:
    """The sums of `predictive` alone, on the sample of pairs that `seen` holds.

    Tells how many hidden sequences are done, `doing` first; `on_pairs` is given each pair's own sums.
    """
    if scanner.measure is None:
        return ScanSums()
    cutting, options = replace(scanner.options, on_long="truncate"), scanner.options
    inputs = [replace(scanner.encode(pair, cutting), place=place) for _, place, pair in seen.sample]
    if options.predictive_words is options.predictive_pairs is None:
        keys = [key for key, _, _ in seen.sample]
        questions = within_budget(inputs, keys, scanner.measure, scored_tokens=seen.tokens)
    else:
        questions = [Questions(encoded, options.predictive_words) for encoded in inputs]
    words, pairs = sum(len(asked.queries) for asked in questions), len(questions)
    doing = f"{doing}predictive words, {words:,} of {counted(pairs, 'pair')}: hidden sequences"
    helps = scanner.answering(questions, doing)
    total = ScanSums()
    for asked, own in zip(questions, helps, strict=True):
        total += summed(scanner, [asked.encoded], [own], on_pairs, ["predictive"])
    return total
