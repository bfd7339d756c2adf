"""A stream of pairs: tokenized in windows, each sorted into batches, and worked on batch by batch."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from attnscan.errors import InputError, StateError, TooLongError
from attnscan.inputs.batch import EncodedInput, batches
from attnscan.inputs.pairs import Pair, Record
from attnscan.model.running import in_halves
from attnscan.model.threads import W, ahead, is_too_long, side_by_side
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen

_BATCHES_IN_WINDOW = 4, 16  # sorted together by length, so that like ones meet; a state is saved between windows
_TOKENS_IN_WINDOW = 16_384  # enough: more batches than the fewest are taken up to so many tokens

_TOGETHER, _CHARACTERS_TOGETHER = 256, 1 << 16  # tokenized at once: some milliseconds, in which no Ctrl-C is heard

OnBad = Callable[[InputError], None]
Window = list[list[EncodedInput]]
Result = TypeVar("Result")
Encode = Callable[[Sequence[Pair]], Iterator[EncodedInput | InputError]]
"""Tokenizes pairs as `Scanner.encode_all` does."""
CrewOf = Callable[[int, int], AbstractContextManager[Sequence[W]]]
"""At most so many workers, which can take inputs of such a length at the same time."""


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

    encode: Encode | None = None
    """How pairs are tokenized, each once and in order; None for as the scanner does."""

    done: int = field(init=False)
    """How many pairs are: all that were read by the end of the last window, and those of later batches."""

    def __post_init__(self) -> None:
        self.done = self.seen.read

    def windows(self) -> Generator[Window, None, None]:
        """A few batches at a time, each tokenized while those before are worked on."""
        with closing(ahead(self._windows(), 1)) as windows:
            for window, seen in windows:
                yield window
                self._count(sum(map(len, window)), seen)

    def worked(
        self, work: Callable[[W, Sequence[EncodedInput]], Result], crew_of: CrewOf[W]
    ) -> Generator[tuple[list[Result], bool], None, None]:
        """Do some work on each batch, side by side where that is faster, and halved where memory is short.

        `crew_of` gives those that work, as `Scanner.crew` does.

        Yields in the order of the stream what came of each batch, and whether a window is done with it.
        """
        windows = self._windows()
        first = next(windows, None)
        if first is None:
            return
        one_at_a_time = threading.Lock()

        def on_piece(own: W, piece: tuple[list[EncodedInput], Seen | None]) -> list[Result]:
            batch, _ = piece
            if not batch:
                return []
            with one_at_a_time if is_too_long(tokens_of(batch[0]), len(crew)) else nullcontext():
                return list(in_halves(batch, partial(work, own), tokens_of, self.scanner.device))

        longest = max((tokens_of(batch[0]) for batch in first[0]), default=1)
        with (
            crew_of(len(first[0]), longest) as crew,
            closing(side_by_side(crew, _pieces(itertools.chain([first], windows)), on_piece)) as worked,
        ):
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
            seen = seen.and_then(record, self.scanner.options, truncated=truncated, skipped=skipped)
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
        encode = self.encode or self.scanner.encode_all
        for records in read_together(self.records):
            for record, one in zip(records, encode([record.pair for record in records]), strict=True):
                if isinstance(one, InputError):
                    self._skip(record, one)
                    yield record, None
                else:
                    yield record, one

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


def read_together(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in runs that are tokenized at once; what stops the reading is raised behind those before it."""
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


def tokens_of(one: EncodedInput) -> int:
    """How long an input is."""
    return len(one.tokens)
