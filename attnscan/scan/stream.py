"""What is read of a stream of pairs: tokenized inputs in windows, each sorted into batches, and what has been seen."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from attnscan.errors import InputError, StateError, TooLongError
from attnscan.inputs.batch import EncodedInput, batches
from attnscan.inputs.pairs import Pair, Record
from attnscan.model.running import in_halves
from attnscan.model.threads import ahead, is_too_long, side_by_side
from attnscan.results.signature import hashed
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

_BATCHES_IN_WINDOW = 4, 16  # sorted together by length, so that like ones meet; a state is saved between windows
_TOKENS_IN_WINDOW = 16_384  # enough: more batches than the fewest are taken up to so many tokens

OnBad = Callable[[InputError], None]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Seen:
    """What a scan has read so far, apart from the sums."""

    read: int = 0
    """Records, those that were skipped included."""
    truncated: int = 0
    skipped: int = 0
    digest: str = ""
    """A hash of every record read, in order: two scans with the same have read the same."""
    sample: tuple[tuple[str, int, Pair], ...] = ()
    """The pairs that `predictive` asks about: the hash that each is drawn by, its number, and itself."""

    def and_then(self, pair: Pair, options: ScanOptions, *, truncated: bool, skipped: bool) -> Seen:
        """The same, one record later."""
        text = [sentence.encode() for sentence in pair.sentences]
        sample = list(self.sample)
        if not skipped:
            # The pairs with the smallest hashes are a uniform sample, whatever the order and the sharding.
            drawn = (hashed(str(options.seed).encode(), *text), self.read + 1, pair)
            if drawn[0] not in [key for key, *_ in sample]:
                bisect.insort(sample, drawn, key=lambda each: each[0])
        return Seen(
            read=self.read + 1,
            truncated=self.truncated + truncated,
            skipped=self.skipped + skipped,
            digest=hashed(self.digest.encode(), *text),
            sample=tuple(sample[: options.predictive_pairs]),
        )


def windows(
    scanner: Scanner, records: Iterable[Record], seen: Seen, on_bad: OnBad | None = None
) -> Iterator[tuple[list[list[EncodedInput]], Seen]]:
    """A stream's batches, a few at a time, with what has been seen by their end."""
    room = scanner.loaded.room(scanner.options.batch_tokens)
    fewest, most = (room.tokens * count for count in _BATCHES_IN_WINDOW)
    tokens = min(most, max(fewest, _TOKENS_IN_WINDOW))
    for some, seen_then in _tokenized(scanner, records, seen, tokens, on_bad):
        yield list(batches(some, room)), seen_then


def windows_ahead(
    scanner: Scanner, records: Iterable[Record], seen: Seen, on_bad: OnBad | None = None
) -> Generator[tuple[list[list[EncodedInput]], Seen], None, None]:
    """The same, each tokenized while the one before is worked on."""
    return ahead(windows(scanner, records, seen, on_bad), 1)


def unseen(records: Iterable[Record], seen: Seen, options: ScanOptions) -> Iterator[Record]:
    """The records behind those that a state has seen, once those are found to be the same.

    Raises: StateError if they are not.
    """
    rest, again = iter(records), Seen()
    for record in itertools.islice(rest, seen.read):
        again = again.and_then(record.pair, options, truncated=False, skipped=True)
    if (again.read, again.digest) != (seen.read, seen.digest):
        raise StateError("the state belongs to other pairs than these", "give the same files in the same order")
    yield from rest


def tokens_of(one: EncodedInput) -> int:
    """How long an input is."""
    return len(one.tokens)


def _tokenized(
    scanner: Scanner, records: Iterable[Record], seen: Seen, limit: int, on_bad: OnBad | None
) -> Iterator[tuple[list[EncodedInput], Seen]]:
    """Tokenized inputs in windows of about `limit` tokens, each with what has been seen by its end."""
    inputs: list[EncodedInput] = []
    tokens = 0
    for record in records:
        encoded = _encoded(scanner, record, on_bad)
        truncated, skipped = encoded is not None and encoded.truncated, encoded is None
        seen = seen.and_then(record.pair, scanner.options, truncated=truncated, skipped=skipped)
        if encoded is not None:
            inputs.append(replace(encoded, number=seen.read))
            tokens += len(encoded.tokens)
        if tokens >= limit:
            yield inputs, seen
            inputs, tokens = [], 0
    if inputs or seen.read:
        yield inputs, seen


def _encoded(scanner: Scanner, record: Record, on_bad: OnBad | None) -> EncodedInput | None:
    """One input, or None if it is to be skipped."""
    try:
        return scanner.encode(record.pair)
    except InputError as error:
        if isinstance(error, TooLongError) and scanner.options.on_long == "skip":
            return None
        where = f"{record.where}: {error.what}"
        if isinstance(error, TooLongError):
            raise TooLongError(where, "shorten it, or pass --on-long truncate or skip") from None
        placed = type(error)(where, error.remedy)
        if on_bad is None:
            raise placed from None
        on_bad(placed)
        return None


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
