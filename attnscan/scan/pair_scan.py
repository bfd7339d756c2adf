"""The one-machine engine: a stream of pairs, in windows and batches, to sums.

A scan can stop between windows, and go on from there.

Inputs with links between their words go the same way: a treebank, or a file of links, is checked
first, and each batch of it is summed by relation.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

import numpy as np

from attnscan.errors import InputError, StateError, TooLongError
from attnscan.inputs.batch import batches
from attnscan.inputs.encode import notes_of
from attnscan.inputs.links import has_links, links_in
from attnscan.inputs.sentence import SPECIAL, EncodedInput, Record
from attnscan.model.attention_block import Consumer
from attnscan.model.device_memory import work_in_parts
from attnscan.model.memory import is_too_long
from attnscan.model.predictive import MaskedQueries, within_budget
from attnscan.model.threads import map_in_this_thread, parallel_map
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import WordDependencies
from attnscan.scan.options import OnProgress, ScanOptions, note, silent
from attnscan.scan.scanner import Scanner, longest_of
from attnscan.scan.state import (
    ScanProgress,
    ScanState,
    Sums,
    half,
    half_of_texts,
    sums_by_group,
)
from attnscan.scoring.blocks import PairSums, SumsByName, add_sums
from attnscan.scoring.relations import RelationScorer, items_of, offsets_error
from attnscan.text import counted, hashed

_BATCHES_IN_WINDOW = (4, 16)
"""The fewest and the most that are sorted by length together, so that like inputs meet; a state is
saved between windows."""
_TOKENS_IN_WINDOW = 16_384  # enough: more batches than the fewest are taken up to so many tokens

_MOST_RELATIONS = 500
_MOST_TAGS = 100
"""Of links: their sums are kept for each relation, and each tag is a rule."""

_NOTED = 16  # pairs, of how their words are read

# Tokenized at once: some milliseconds, in which no Ctrl-C is heard
_RECORDS_AT_ONCE = 256
_CHARACTERS_AT_ONCE = 1 << 16

OnBad = Callable[[InputError], object]
OnCount = Callable[[int], object]
"""Called with how many pairs of the stream are done."""
Batch = list[EncodedInput]
Result = TypeVar("Result")


def group_records(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in parts that are tokenized at once."""
    part: list[Record] = []
    characters = 0
    for record in records:
        part.append(record)
        characters += sum(len(text) for text in record.pair.texts)
        if len(part) >= _RECORDS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield part
            part = []
            characters = 0
    if part:
        yield part


def skip_seen(records: Iterable[Record], seen: ScanProgress) -> Iterator[Record]:
    """The records behind those that a state has seen, once those are found to be the same.

    Raises: StateError if they are not.
    """
    remaining = iter(records)
    repeated = ScanProgress()
    for record in islice(remaining, seen.read):
        repeated = repeated.merge(ScanProgress(read=1, digest=record.key), most=0)
    if repeated.read != seen.read or repeated.digest != seen.digest:
        raise StateError(
            "the state belongs to other pairs than these", "give the same files in the same order"
        )
    yield from remaining


def skip(record: Record, error: InputError, options: ScanOptions, on_bad: OnBad | None) -> None:
    """Leave out a record that cannot be read.

    Raises: the error, which says where it stands, if it is to stop.
    """
    is_long = isinstance(error, TooLongError)
    if is_long and options.on_long == "skip":
        return
    remedy = "shorten it, or pass ``on_long=truncate`` or skip" if is_long else error.remedy
    placed = type(error)(f"{record.where}: {error.what}", remedy)
    if on_bad is None or is_long:
        raise placed from None
    on_bad(placed)


def read_batches(
    scanner: Scanner,
    records: Iterable[Record],
    on_bad: OnBad | None = None,
    seen: ScanProgress | None = None,
) -> Iterator[tuple[Batch, ScanProgress | None]]:
    """A stream of pairs in batches, behind what has been `seen` of it.

    A window of batches is sorted by length; with the last of it, which may be empty, comes what
    has been seen by its end. A pair that the model cannot read is handed to `on_bad` and skipped,
    or raised if there is none.
    """
    options = scanner.options
    room = scanner.loaded.room(options.batch_tokens)
    fewest, most = _BATCHES_IN_WINDOW
    tokens_in_window = min(room * most, max(room * fewest, _TOKENS_IN_WINDOW))
    seen = seen or ScanProgress()
    inputs: Batch = []
    tokens = 0
    for record, encoded in _encode_records(scanner, records):
        if isinstance(encoded, InputError):
            skip(record, encoded, options, on_bad)
            seen = seen.add(record, options, skipped=True)
            continue
        length = len(encoded.tokens)
        seen = seen.add(record, options, truncated=encoded.truncated, tokens=length)
        inputs.append(replace(encoded, number=seen.read, place=record.place))
        tokens += length
        if tokens >= tokens_in_window:
            yield from _window(inputs, room, seen)
            inputs = []
            tokens = 0
    if inputs or seen.read:
        yield from _window(inputs, room, seen)


def _encode_records(
    scanner: Scanner, records: Iterable[Record]
) -> Iterator[tuple[Record, EncodedInput | InputError]]:
    """Each record as the model reads it, or the error in its place."""
    for part in group_records(records):
        encoded = scanner.encode_all([record.pair for record in part])
        yield from zip(part, encoded, strict=True)


def _window(
    inputs: Batch, room: int, seen: ScanProgress
) -> Iterator[tuple[Batch, ScanProgress | None]]:
    *earlier, last = list(batches(inputs, room)) or [[]]
    for batch in earlier:
        yield batch, None
    yield last, seen


def process_batches(
    scanner: Scanner,
    records: Iterable[Record],
    work: Callable[[Batch], Result],
    on_count: OnCount,
    on_bad: OnBad | None = None,
    *,
    seen: ScanProgress | None = None,
    other_scanners: Sequence[Scanner] = (),
) -> Generator[tuple[Batch, Result | None, ScanProgress | None], None, None]:
    """Do some `work` on each batch of `read_batches`, on several at a time.

    Yields, in the order of the stream, each batch, its result (None if it is empty) and, at the
    end of a window, what has been seen. A batch that a device's memory does not hold comes in
    parts. The work may need `other_scanners`.
    """
    stream = read_batches(scanner, records, on_bad, seen)
    first = next(stream, None)
    if first is None:
        return
    longest = longest_of(first[0])
    scanners = (scanner, *other_scanners)
    _, most = _BATCHES_IN_WINDOW
    workers = min(reader.workers(most, longest) for reader in scanners)
    one_at_a_time = threading.Lock()
    limit = scanner.batch_limit()

    def work_on(
        item: tuple[Batch, ScanProgress | None],
    ) -> Sequence[tuple[Batch, Result | None]]:
        batch, _ = item
        if not batch:
            return [(batch, None)]
        is_long = is_too_long(len(batch[0].tokens), workers)
        with one_at_a_time if is_long else nullcontext():
            return list(work_in_parts(work, batch, longest_of, limit))

    done = seen.read if seen is not None else 0
    items = chain([first], stream)
    if workers == 1 and scanner.loaded.device.type == "cpu":
        worked = map_in_this_thread(items, work_on)
    else:
        worked = parallel_map(workers, items, work_on)
    with closing(worked) as results:
        for (batch, now), parts in results:
            *earlier, (last, last_result) = parts
            for part, result in earlier:
                yield part, result, None
            yield last, last_result, now
            done = now.read if now is not None else done + len(batch)
            on_count(done)


def draw_numbers(encoded: EncodedInput, numbers: Sequence[int], most: int, seed: int) -> list[int]:
    """At most so many of some numbers, in ascending order.

    They are drawn by a hash of the input's token ids and a seed.
    """
    ids = str(encoded.model_inputs["input_ids"]).encode()
    rng = np.random.default_rng(int(hashed(str(seed).encode(), ids)[:16], 16))
    return sorted(rng.permutation(numbers)[:most].tolist())


def sum_over_pairs(
    scanner: Scanner,
    records: Iterable[Record],
    work: Callable[[Sequence[EncodedInput]], Any],
    doing: str,
    on_bad: OnBad | None = None,
    other_scanners: Sequence[Scanner] = (),
) -> tuple[Any, ScanProgress]:
    """Add up what `work` makes of each batch, None if there is no pair; and what was read."""
    total = None
    seen = ScanProgress()
    on_count = partial(scanner.tell, doing)
    results = process_batches(
        scanner, records, work, on_count, on_bad, other_scanners=other_scanners
    )
    with closing(results):
        for _, result, now in results:
            total = add_sums(total, result)
            seen = now or seen
    return total, seen


class PairObserver(Protocol):
    """Looks on while pairs are scored, for a file of every pair's scores or for a card."""

    def consumers(self, inputs: Sequence[EncodedInput]) -> Sequence[Consumer]:
        """What sees the attention of some inputs; none if their sums are enough."""

    def measure(
        self, inputs: Sequence[EncodedInput], consumers: Sequence[Consumer], sums: SumsByName
    ) -> Any:
        """What is kept of some inputs, in the thread that ran them; `sums` are each input's own."""

    def take(self, measured: Any) -> None:
        """Take what was measured, in the order of the stream."""


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    *,
    on_count: OnCount | None = None,
    observer: PairObserver | None = None,
    keep: Callable[[ScanState], object] | None = None,
) -> ScanState:
    """Score every head on a stream of pairs, and return what was summed.

    With a `start`, `records` begin where it ended. `keep` is given the state after each window of
    batches. Raises: InputError, which says where the pair stands, without `on_bad`.
    """
    state = start or ScanState(scanner.options)
    sums: Sums = {}
    if on_count is None:
        on_count = partial(scanner.tell, "scoring pairs")
    work = partial(sum_batch, scanner, observer=observer)
    results = process_batches(scanner, records, work, on_count, on_bad, seen=state.seen)
    with closing(results):
        for batch, result, seen in results:
            if not sums and not state.seen.read:
                note_words(scanner, batch[:_NOTED])
            if result is not None:
                sums = add_sums(sums, result.sums)
                result.tell(observer)
            if seen is None:
                continue
            all_sums = add_sums(state.sums, sums)
            signature = scanner.signature(fingerprint=True) if all_sums else None
            state = ScanState(
                options=scanner.options, seen=seen, sums=all_sums, signature=signature
            )
            sums = {}
            if keep is not None:
                keep(state)
    return state


def note_words(scanner: Scanner, inputs: Sequence[EncodedInput]) -> None:
    """Say how words of some inputs are read.

    Special tokens may have been typed, and words may have no spaces between them.
    """
    options = scanner.options
    are_found_by_tokenizer = options.words == "tokenizer" and options.relations is None
    if are_found_by_tokenizer and options.attention == "encoder":
        for line in notes_of(scanner.loaded.tokenizer, inputs):
            note(line)


def finish_scan(
    scanner: Scanner, state: ScanState, doing: str = "", observer: PairObserver | None = None
) -> HeadScores:
    """Measure `predictive` on the sample of a state, as `sum_predictive` does, and rank heads.

    Raises: as `ScanState.ranking`.
    """
    if not state.lacks_predictive:
        return state.ranking()
    return state.ranking(sum_predictive(scanner, state.seen, doing, observer))


@dataclass(frozen=True)
class BatchSums:
    """The sums of a batch, and what an observer has measured of its parts."""

    sums: Sums
    measured: Sequence[Any] = ()

    def tell(self, observer: PairObserver | None) -> None:
        """Hand an observer what it has measured."""
        if observer is not None:
            for measured in self.measured:
                observer.take(measured)


def sum_batch(
    scanner: Scanner,
    inputs: Sequence[EncodedInput],
    word_dependencies: Sequence[WordDependencies] = (),
    observer: PairObserver | None = None,
    only: Sequence[str] | None = None,
) -> BatchSums:
    """The sums of some inputs, scored as `Scanner.score` does.

    If heads are ranked by one half of the pairs, each half is summed by itself. With the option
    `relations`, inputs are compared with their links instead.
    """
    if scanner.options.relations is not None:
        return BatchSums(sum_links(scanner, inputs))
    sums: dict[str, PairSums] = {}
    measured: list[Any] = []
    for name, part in _split(inputs, scanner.options).items():
        if not part:
            continue
        consumers = [] if observer is None else observer.consumers(part)
        input_sums = scanner.score(part, word_dependencies, consumers, only)
        if name == "scored":
            sums |= sums_by_group(part, input_sums)
        else:
            sums[name] = PairSums.of([encoded.known_pair.key for encoded in part], input_sums)
        if observer is not None:
            measured.append(observer.measure(part, consumers, input_sums))
    return BatchSums(sums, measured)


def _split(inputs: Sequence[EncodedInput], options: ScanOptions) -> dict[str, Batch]:
    """The inputs by what heads are scored and, with the option `split`, ranked by."""
    if not options.split:
        return {"scored": list(inputs)}
    parts: dict[str, Batch] = {"scored": [], "ranked": []}
    for encoded in inputs:
        name = "scored" if half(encoded.known_pair, options.seed) else "ranked"
        parts[name].append(encoded)
    return parts


def sum_predictive(
    scanner: Scanner, seen: ScanProgress, doing: str = "", observer: PairObserver | None = None
) -> Sums:
    """The sums of `predictive` alone, on the sample of pairs that `seen` holds.

    Tells how many hidden sequences are done, `doing` first.
    """
    total: Sums = {}
    if scanner.measure is None:
        return total
    questions = _masked_queries(scanner, seen)
    words = sum(len(question.queries) for question in questions)
    pairs = counted(len(questions), "pair")
    doing = f"{doing}predictive words, {words:,} of {pairs}: hidden sequences"
    word_dependencies = scanner.answers(questions, doing)
    for question, dependencies in zip(questions, word_dependencies, strict=True):
        inputs = [question.encoded]
        result = sum_batch(scanner, inputs, [dependencies], observer, only=["predictive"])
        total = add_sums(total, result.sums)
        result.tell(observer)
    if not questions:
        note(
            "predictive was not measured: asking about a pair takes longer than all else; "
            "--predictive-pairs N asks"
        )
    elif not any(dependencies.shares.any() for dependencies in word_dependencies):
        note(
            f"predictive was asked of {counted(words, 'word')}, "
            "and no other word helps to predict any of them"
        )
    return total


def _masked_queries(scanner: Scanner, seen: ScanProgress) -> list[MaskedQueries]:
    """The words to ask about: as options say, else as many as the cost of the scan allows."""
    options = scanner.options
    assert scanner.measure is not None
    cutting = scanner.with_options(on_long="truncate")
    keys: list[str] = []
    inputs: Batch = []
    for key, place, pair in seen.sample:
        keys.append(key)
        inputs.append(replace(cutting.encode(pair), place=place))
    if options.predictive_words is None and options.predictive_pairs is None:
        return within_budget(inputs, keys, scanner.measure, scored_tokens=seen.tokens)
    return [MaskedQueries(encoded, options.predictive_words) for encoded in inputs]


def check_links(
    records: Iterable[Record],
    progress: OnProgress = silent,
    *,
    subtypes: bool = False,
    are_trees: bool = True,
) -> tuple[int, list[str]]:
    """Read a treebank, or links, so that errors are raised before a model is loaded.

    Counts its inputs, and lists its relations. With `are_trees`, each is to have a tree.
    Raises: InputError if there is no input, or one without links, or no link at all.
    """
    count = 0
    relations: set[str] = set()
    tags: set[str] = set()
    doing = "reading trees" if are_trees else "reading links"
    for count, record in enumerate(records, 1):
        pair = record.pair
        if not has_links(pair):
            raise InputError(
                f"{record.where}: a sentence without a tree",
                "name a treebank in CoNLL-U, a .conllu file; links of your own are for ``links``",
            )
        items = items_of(links_in(pair), subtypes=subtypes)
        relations.update(item.row.relation for item in items)
        for sentence in pair.sentences:
            tags.update(str(tag) for tag in sentence.tags.get("tag", ()))
        if len(relations) > _MOST_RELATIONS or len(tags) > _MOST_TAGS:
            raise InputError(
                f"{record.where}: up to here there are {len(relations):,} relations and "
                f"{len(tags):,} tags, and {_MOST_RELATIONS} and {_MOST_TAGS} can be compared",
                "name kinds of links and of words, such as parts of speech",
            )
        if count % 100 == 0:
            progress(doing, count, None)
    if are_trees and not count:
        raise InputError(
            "there is no sentence in the treebank", "name a .conllu file with at least one"
        )
    if not are_trees and not relations:
        raise InputError(
            f"there is no link in {counted(count, 'record')}",
            'give each line its links, as {"text": ..., "links": [["coref", 5, 1]]}',
        )
    return count, sorted(relations)


def sum_links(scanner: Scanner, inputs: Sequence[EncodedInput]) -> Sums:
    """The sums of some inputs with links, as `RelationSums` has them.

    Which half of all an input is in is drawn by a hash of its texts and the seed.
    Raises: ModelError if the tokenizer does not tell which characters a token stands for.
    """
    options = scanner.options
    for encoded in inputs:
        _check_offsets(encoded, scanner.loaded.source.name)
    scanner.check_room(max(len(encoded.tokens) for encoded in inputs))
    batch = scanner.collate(inputs)
    scorer = RelationScorer(
        batch,
        [half_of_texts(encoded.known_pair, options.seed) for encoded in inputs],
        among=options.reading.words_only,
        subtypes=options.relations == "subtypes",
        causal=scanner.is_causal,
    )
    scanner.run(batch.model_inputs, scorer)
    return scorer.sums()


def _check_offsets(encoded: EncodedInput, model: str) -> None:
    """Raises: ModelError for a token that stands for no character of its sentence."""
    for sentence, (first, last) in zip(encoded.sentence, encoded.spans, strict=True):
        if sentence != SPECIAL and first >= last:
            reason = f"a token of sentence {encoded.number} has no character of it"
            raise offsets_error(model, reason)
