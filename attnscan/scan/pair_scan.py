"""The one-machine engine: a stream of pairs, in windows and batches, to sums, with what is needed to stop and go on.

Sentences with trees go the same way: a treebank is checked first, and each batch of it is summed by relation.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import chain, islice
from typing import Any, TypeVar, cast

import numpy as np

from attnscan.errors import InputError, StateError, TooLongError
from attnscan.inputs.batch import batches
from attnscan.inputs.encode import notes_of
from attnscan.inputs.sentence import SPECIAL, EncodedInput, Record
from attnscan.model.running import is_too_long, parallel_map
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import WordDependencies
from attnscan.scan.options import OnProgress, ScanOptions, note, silent
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.state import ScanProgress, ScanState, Sums, half
from attnscan.scoring.blocks import PairSums, add_sums
from attnscan.scoring.predictive import MaskedQueries, within_budget
from attnscan.scoring.relations import RelationScorer, items_of, offsets_error
from attnscan.text import counted, hashed

_BATCHES_IN_WINDOW = (
    4,
    16,
)  # sorted together by length, so that like ones meet; a state is saved between windows
_TOKENS_IN_WINDOW = 16_384  # enough: more batches than the fewest are taken up to so many tokens

_NOTED = 16  # pairs, of how their words are read
_TOGETHER, _CHARACTERS_TOGETHER = (
    256,
    1 << 16,
)  # tokenized at once: some milliseconds, in which no Ctrl-C is heard

OnBad = Callable[[InputError], object]
Batch = list[EncodedInput]
Result = TypeVar("Result")


def group_records(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in parts that are tokenized at once."""
    part, characters = list[Record](), 0
    for record in records:
        part.append(record)
        characters += sum(map(len, record.pair.texts))
        if len(part) >= _TOGETHER or characters >= _CHARACTERS_TOGETHER:
            yield part
            part, characters = [], 0
    if part:
        yield part


def skip_seen(records: Iterable[Record], seen: ScanProgress) -> Iterator[Record]:
    """The records behind those that a state has seen, once those are found to be the same.

    Raises: StateError if they are not.
    """
    remaining, repeated = iter(records), ScanProgress()
    for record in islice(remaining, seen.read):
        repeated = repeated.merge(ScanProgress(1, digest=record.pair.key), 0)
    if (repeated.read, repeated.digest) != (seen.read, seen.digest):
        raise StateError(
            "the state belongs to other pairs than these", "give the same files in the same order"
        )
    yield from remaining


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


def batches_of(
    scanner: Scanner,
    records: Iterable[Record],
    on_bad: OnBad | None = None,
    seen: ScanProgress | None = None,
) -> Iterator[tuple[Batch, ScanProgress | None]]:
    """A stream of pairs in batches, behind what has been `seen` of it.

    A window of batches is sorted by length; with the last of it, which may be empty, comes what has been seen by its
    end. A pair that the model cannot read is handed to `on_bad` and skipped, or raised if there is none.
    """
    options, seen, room = (
        scanner.options,
        seen or ScanProgress(),
        scanner.loaded.room(scanner.options.batch_tokens),
    )
    fewest, most = (room * count for count in _BATCHES_IN_WINDOW)
    limit, inputs, tokens = min(most, max(fewest, _TOKENS_IN_WINDOW)), Batch(), 0
    for part in group_records(records):
        for record, encoded in zip(
            part, scanner.encode_all([record.pair for record in part]), strict=True
        ):
            if isinstance(encoded, InputError):
                skip(record, encoded, options, on_bad)
                seen = seen.add(record, options, skipped=True)
                continue
            length = len(encoded.tokens)
            seen = seen.add(record, options, truncated=encoded.truncated, tokens=length)
            inputs.append(replace(encoded, number=seen.read, place=record.place))
            tokens += length
            if tokens >= limit:
                yield from _window(inputs, room, seen)
                inputs, tokens = [], 0
    if inputs or seen.read:
        yield from _window(inputs, room, seen)


def _window(
    inputs: Batch, room: int, seen: ScanProgress
) -> Iterator[tuple[Batch, ScanProgress | None]]:
    *earlier, last = list(batches(inputs, room)) or [[]]
    yield from ((batch, None) for batch in earlier)
    yield last, seen


def process_batches(
    scanner: Scanner,
    records: Iterable[Record],
    work: Callable[[Batch], Result],
    take: Callable[[Batch, Result | None, ScanProgress | None], object],
    doing: str,
    on_bad: OnBad | None = None,
    *,
    seen: ScanProgress | None = None,
    total: int | None = None,
    other_scanners: Sequence[Scanner] = (),
) -> None:
    """Do some `work` on each batch of `batches_of`, and `take` what it makes in the order of the stream.

    `take` is called with each batch, its result (None if it is empty) and, at the end of a window, what has been seen.
    The progress counts pairs, under the text `doing`. The work may need `other_scanners`.
    """
    stream = batches_of(scanner, records, on_bad, seen)
    first = next(stream, None)
    if first is None:
        return
    longest = max((len(encoded.tokens) for encoded in first[0]), default=1)
    workers = min(
        reader.workers(_BATCHES_IN_WINDOW[1], longest) for reader in (scanner, *other_scanners)
    )
    one_at_a_time, done = threading.Lock(), 0 if seen is None else seen.read

    def on_batch(item: tuple[Batch, ScanProgress | None]) -> Result | None:
        if not item[0]:
            return None
        with one_at_a_time if is_too_long(len(item[0][0].tokens), workers) else nullcontext():
            return work(item[0])

    with closing(parallel_map(workers, chain([first], stream), on_batch)) as results:
        for (batch, now), result in results:
            take(batch, result, now)
            done = done + len(batch) if now is None else now.read
            scanner.tell(doing, done, total)


def draw_numbers(encoded: EncodedInput, numbers: Sequence[int], most: int, seed: int) -> list[int]:
    """At most so many of some numbers, drawn by a hash of the input's token ids and a seed; in ascending order."""
    ids = str(encoded.model_inputs["input_ids"]).encode()
    rng = np.random.default_rng(int(hashed(str(seed).encode(), ids)[:16], 16))
    return sorted(rng.permutation(numbers)[:most].tolist())


def sums_over(
    scanner: Scanner,
    records: Iterable[Record],
    work: Callable[[Sequence[EncodedInput]], Any],
    doing: str,
    on_bad: OnBad | None = None,
    other_scanners: Sequence[Scanner] = (),
) -> tuple[Any, ScanProgress]:
    """Add up what `work` makes of each batch, None if there is no pair; and what was read."""
    total, seen = None, ScanProgress()

    def take(_batch: object, result: Any, now: ScanProgress | None) -> None:
        nonlocal total, seen
        total, seen = add_sums(total, result), now or seen

    process_batches(scanner, records, work, take, doing, on_bad, other_scanners=other_scanners)
    return total, seen


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
    """Score every head on a stream of pairs, and return what was summed.

    With a `start`, `records` begin where it ended. `on_pairs` is given each pair's own sums, and `keep` the state after
    each window of batches. Raises: InputError, which says where the pair stands, without `on_bad`.
    """
    state, sums = start or ScanState(scanner.options), dict[str, PairSums]()

    def work(batch: Batch) -> tuple[Sums, list[Any]]:
        of_pairs: list[Any] = []
        collect = None if on_pairs is None else lambda *sums_of_part: of_pairs.append(sums_of_part)
        return sum_batch(scanner, batch, (), collect), of_pairs

    def take(
        batch: Batch, result: tuple[Sums, list[Any]] | None, seen: ScanProgress | None
    ) -> None:
        nonlocal state, sums
        if not sums and not state.seen.read:
            note_words(scanner, batch[:_NOTED])
        if result is not None:
            sums = add_sums(sums, result[0])
            for sums_of_part in result[1]:
                cast(OnPairs, on_pairs)(*sums_of_part)
        if seen is not None:
            all_sums = add_sums(state.sums, sums)
            signature = scanner.signature(fingerprint=True) if all_sums else None
            state, sums = ScanState(scanner.options, seen, all_sums, signature), {}
            if keep is not None:
                keep(state)

    process_batches(scanner, records, work, take, doing, on_bad, seen=state.seen, total=total)
    return state


def note_words(scanner: Scanner, inputs: Sequence[EncodedInput]) -> None:
    """Say how words of some inputs are read: special tokens that were typed, and words that no space divides."""
    options = scanner.options
    if (
        options.relations is None
        and options.attention == "encoder"
        and options.words == "tokenizer"
    ):
        for line in notes_of(scanner.loaded.tokenizer, inputs):
            note(line)


def finish_scan(
    scanner: Scanner, state: ScanState, doing: str = "", on_pairs: OnPairs | None = None
) -> HeadScores:
    """Measure `predictive` on the sample of a state, as `sum_predictive` does, and rank heads.

    Raises: as `ScanState.ranking`.
    """
    return state.ranking(
        sum_predictive(scanner, state.seen, doing, on_pairs) if state.asks else None
    )


def sum_batch(
    scanner: Scanner,
    inputs: Sequence[EncodedInput],
    word_dependencies: Sequence[WordDependencies] = (),
    on_pairs: OnPairs | None = None,
    only: Sequence[str] | None = None,
) -> Sums:
    """The sums of some inputs, scored as `Scanner.score` does, each half by itself if heads are ranked by one of them.

    With the option `relations`, sentences are compared with their trees instead.
    """
    if scanner.options.relations is not None:
        return sum_trees(scanner, inputs)
    parts, sums = {"scored": list(inputs)}, dict[str, PairSums]()
    if scanner.options.split:
        parts = {"scored": [], "ranked": []}
        for encoded in inputs:
            parts["scored" if half(encoded.known_pair, scanner.options.seed) else "ranked"].append(
                encoded
            )
    for name, part in parts.items():
        if part:
            of_pairs = scanner.score(part, word_dependencies, only=only)
            sums[name] = PairSums.of([encoded.known_pair.key for encoded in part], of_pairs)
            if on_pairs is not None:
                on_pairs([encoded.place for encoded in part], of_pairs)
    return sums


def sum_predictive(
    scanner: Scanner, seen: ScanProgress, doing: str = "", on_pairs: OnPairs | None = None
) -> Sums:
    """The sums of `predictive` alone, on the sample of pairs that `seen` holds.

    Tells how many hidden sequences are done, `doing` first; `on_pairs` is given each pair's own sums.
    """
    total, options = dict[str, PairSums](), scanner.options
    if scanner.measure is None:
        return total
    cutting = scanner.with_options(on_long="truncate")
    inputs = [replace(cutting.encode(pair), place=place) for _, place, pair in seen.sample]
    if options.predictive_words is options.predictive_pairs is None:
        keys = [key for key, _, _ in seen.sample]
        questions = within_budget(inputs, keys, scanner.measure, scored_tokens=seen.tokens)
    else:
        questions = [MaskedQueries(encoded, options.predictive_words) for encoded in inputs]
    words, pairs = sum(len(question.queries) for question in questions), len(questions)
    doing = f"{doing}predictive words, {words:,} of {counted(pairs, 'pair')}: hidden sequences"
    word_dependencies = scanner.answers(questions, doing)
    for question, help_of_words in zip(questions, word_dependencies, strict=True):
        total = add_sums(
            total, sum_batch(scanner, [question.encoded], [help_of_words], on_pairs, ["predictive"])
        )
    if not questions:
        note(
            "predictive was not measured: asking about a pair takes longer than all else; --predictive-pairs N asks"
        )
    elif not any(help_of_words.shares.any() for help_of_words in word_dependencies):
        note(
            f"predictive was asked of {counted(words, 'word')}, and no other word helps to predict any of them"
        )
    return total


def check_trees(
    records: Iterable[Record], progress: OnProgress = silent, *, subtypes: bool = False
) -> tuple[int, list[str]]:
    """Read a treebank, so that its errors are raised before a model is loaded; count its sentences, list its relations.

    Raises: InputError if there is no sentence, or one without a tree.
    """
    count, relations = 0, set[str]()
    for count, record in enumerate(records, 1):
        sentence, *second = record.pair.sentences
        if second or sentence.words is None or not {"head", "deprel", "upos"} <= set(sentence.tags):
            raise InputError(
                f"{record.where}: a sentence without a tree",
                "name a treebank in CoNLL-U, a .conllu file",
            )
        relations.update(item.row.relation for item in items_of(sentence, subtypes=subtypes))
        if count % 100 == 0:
            progress("reading trees", count, None)
    if not count:
        raise InputError(
            "there is no sentence in the treebank", "name a .conllu file with at least one"
        )
    return count, sorted(relations)


def sum_trees(scanner: Scanner, inputs: Sequence[EncodedInput]) -> Sums:
    """The sums of some sentences with trees, as `RelationSums` has them.

    Raises: ModelError if the tokenizer does not tell which characters a token stands for.
    """
    for encoded in inputs:
        for sentence, (first, last) in zip(encoded.sentence, encoded.spans, strict=True):
            if sentence != SPECIAL and first >= last:
                reason = f"a token of sentence {encoded.number} has no character of it"
                raise offsets_error(scanner.loaded.source.name, reason)
    scanner.check_room(max(len(encoded.tokens) for encoded in inputs))
    options, batch = scanner.options, scanner.collate(inputs)
    scorer = RelationScorer(
        batch,
        [half(encoded.known_pair, options.seed) for encoded in inputs],
        among=options.reading.among_words,
        subtypes=options.relations == "subtypes",
        causal=scanner.is_causal,
    )
    scanner.run(batch.model_inputs, scorer)
    return scorer.sums()
