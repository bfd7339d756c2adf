"""The one-machine engine: a stream of pairs, in windows and batches, to sums, with what is needed to stop and go on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from attnscan.errors import InputError, StateError, TooLongError
from attnscan.inputs.batch import EncodedInput, batches
from attnscan.inputs.encode import notes_of
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.running import is_too_long, side_by_side
from attnscan.results.dependencies import Help
from attnscan.results.heads import HeadScores
from attnscan.results.terms import counted
from attnscan.scan.options import ScanOptions, note
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.state import NOTHING, ScanState, ScanSums, Seen, half
from attnscan.scan.trees import tree_sums
from attnscan.scoring.blocks import Blocks
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.predictive import Questions, within_budget
from attnscan.scoring.targets import Targets

_BATCHES_IN_WINDOW = 4, 16  # sorted together by length, so that like ones meet; a state is saved between windows
_TOKENS_IN_WINDOW = 16_384  # enough: more batches than the fewest are taken up to so many tokens

_NOTED = 16  # pairs, of how their words are read
_TOGETHER, _CHARACTERS_TOGETHER = 256, 1 << 16  # tokenized at once: some milliseconds, in which no Ctrl-C is heard

OnBad = Callable[[InputError], None]
Batch = list[EncodedInput]
Result = TypeVar("Result")


def batches_of(
    scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None = None, seen: Seen = NOTHING
) -> Iterator[tuple[Batch, Seen | None]]:
    """A stream of pairs in batches of like length, behind what has been `seen` of it.

    A window of batches is sorted by length; with the last of it, which may be empty, comes what has been seen by its
    end. A pair that the model cannot read is handed to `on_bad` and skipped, or raised if there is none.
    """
    options, room = scanner.options, scanner.loaded.room(scanner.options.batch_tokens)
    fewest, most = (room * count for count in _BATCHES_IN_WINDOW)
    limit = min(most, max(fewest, _TOKENS_IN_WINDOW))

    def window() -> Iterator[tuple[Batch, Seen | None]]:
        *others, last = list(batches(inputs, room)) or [[]]
        yield from ((batch, None) for batch in others)
        yield last, seen

    inputs, tokens = Batch(), 0
    for part in together(records):
        for record, encoded in zip(part, scanner.encode_all([record.pair for record in part]), strict=True):
            if isinstance(encoded, InputError):
                skip(record, encoded, options, on_bad)
                seen = seen.and_then(record, options, skipped=True)
                continue
            length = tokens_of(encoded)
            seen = seen.and_then(record, options, truncated=encoded.truncated, tokens=length)
            inputs.append(replace(encoded, number=seen.read, place=record.place))
            tokens += length
            if tokens >= limit:
                yield from window()
                inputs, tokens = [], 0
    if inputs or seen.read:
        yield from window()


def skip(record: Record, error: InputError, options: ScanOptions, on_bad: OnBad | None) -> None:
    """Leave out a record that cannot be read. Raises: the error, which says where it stands, if it is to stop."""
    is_long = isinstance(error, TooLongError)
    if is_long and options.on_long == "skip":
        return
    remedy = "shorten it, or pass --on-long truncate or skip" if is_long else error.remedy
    placed = type(error)(f"{record.where}: {error.what}", remedy)
    if on_bad is None or is_long:
        raise placed from None
    on_bad(placed)


def worked(
    scanner: Scanner,
    work: Callable[[Batch], Result],
    stream: Iterator[tuple[Batch, Seen | None]],
    others: Sequence[Scanner] = (),
) -> Generator[tuple[Batch, Seen | None, Result | None], None, None]:
    """Do some work on each batch of `batches_of`, side by side where that is faster; None of an empty batch.

    `others` are further scanners that the work needs. Yields in the order of the stream.
    """
    first = next(stream, None)
    if first is None:
        return
    longest = max(map(tokens_of, first[0]), default=1)
    workers = min(own.workers(_BATCHES_IN_WINDOW[1], longest) for own in (scanner, *others))
    one_at_a_time = threading.Lock()

    def on_batch(item: tuple[Batch, Seen | None]) -> Result | None:
        if not item[0]:
            return None
        with one_at_a_time if is_too_long(tokens_of(item[0][0]), workers) else nullcontext():
            return work(item[0])

    with closing(side_by_side(workers, itertools.chain([first], stream), on_batch)) as results:
        for (batch, seen), result in results:
            yield batch, seen, result


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


def unseen(records: Iterable[Record], seen: Seen) -> Iterator[Record]:
    """The records behind those that a state has seen, once those are found to be the same.

    Raises: StateError if they are not.
    """
    rest, again = iter(records), Seen()
    for record in itertools.islice(rest, seen.read):
        again = again.joined(Seen(1, digest=record.pair.key), 0)
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
    state, sums = start or ScanState(scanner.options), ScanSums()
    done = state.seen.read

    def work(batch: Batch) -> tuple[ScanSums, list[Any]]:
        own: list[Any] = []
        take = None if on_pairs is None else lambda *of_pairs: own.append(of_pairs)
        return summed(scanner, batch, (), take), own

    stream = batches_of(scanner, records, on_bad, state.seen)
    with closing(worked(scanner, work, stream)) as results:
        for batch, seen, result in results:
            if not done:
                note_words(scanner, batch[:_NOTED])
            if result is not None:
                sums += result[0]
                for of_pairs in result[1]:
                    cast(OnPairs, on_pairs)(*of_pairs)
            done = done + len(batch) if seen is None else seen.read
            scanner.tell(doing, done, total)
            if seen is not None:
                state, sums = ScanState(scanner.options, seen, state.sums + sums), ScanSums()
                if keep is not None:
                    keep(state)
    return state


def note_words(scanner: Scanner, inputs: Sequence[EncodedInput]) -> None:
    """Say how words of some inputs are read: special tokens that were typed, and words that no space divides."""
    options = scanner.options
    if options.relations is None and options.attention == "encoder" and options.words == "tokenizer":
        for line in notes_of(scanner.loaded.tokenizer, inputs):
            note(line)


def with_signature(scanner: Scanner, state: ScanState) -> ScanState:
    """A state that says which model ran, if a pair was scored."""
    if state.signature is not None or state.sums.shape is None:
        return state
    return replace(state, signature=scanner.signature(fingerprint=True))


def finished(scanner: Scanner, state: ScanState, doing: str = "", on_pairs: OnPairs | None = None) -> HeadScores:
    """Measure `predictive` on the sample of a state, and rank heads.

    Tells of hidden sequences, `doing` first; `on_pairs` is given each asked pair's scores for `predictive`.
    Raises: as `ScanState.ranking`.
    """
    state = with_signature(scanner, state)
    return state.ranking(predictive_sums(scanner, state.seen, doing, on_pairs) if state.asks else None)


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
    """What inputs say of scores and, if that was asked for, of labels."""
    options, classes = scanner.options, list[ClassScorer]()

    def beside(targets: Targets) -> Consumer:
        if options.labelled and only is None:
            classes.append(ClassScorer(targets.units, special=not options.reading.among_words))
        return partial(each, classes)

    sums = dict(scanner.score(inputs, helps, beside, only))
    for scorer in classes:
        sums |= scorer.sums()
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
    helps = scanner.answers(questions, doing)
    total = ScanSums()
    for asked, own in zip(questions, helps, strict=True):
        total += summed(scanner, [asked.encoded], [own], on_pairs, ["predictive"])
    if not questions:
        note("predictive was not measured: asking about a pair takes longer than all else; --predictive-pairs N asks")
    elif not any(own.shares.any() for own in helps):
        note(f"predictive was asked of {counted(words, 'word')}, and no other word helps to predict any of them")
    return total
