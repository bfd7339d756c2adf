"""Iterators for streams of any length: read ahead in the background, gathered, sorted, batched. Bounded memory."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from attnscan.batch import EncodedInput

_IN_CACHE = 12 << 20  # bytes of a batch's widest activations that a CPU's last cache holds beside the weights
_FEWEST_ON_CPU, _MOST_ON_CPU = 256, 4096  # tokens in a batch, however wide or narrow the model
_PATIENCE = 2.0  # seconds for the last item: standard input can keep a thread waiting for ever

T = TypeVar("T")


def ahead(items: Iterable[T], size: int) -> Generator[T, None, None]:
    """The same items, fetched by a thread that stays at most `size` items ahead.

    An error while fetching is raised here, in its place. Closing the iterator ends the thread.
    """
    fetched: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(maxsize=size)
    closed, ended = threading.Event(), threading.Event()

    def put(item: tuple[bool, T | BaseException | None]) -> None:
        while not closed.is_set():
            try:
                fetched.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def fetch() -> None:
        try:
            for item in items:
                put((True, item))
                if closed.is_set():
                    return
            put((False, None))
        except BaseException as error:  # whatever it is, it belongs to whoever asks for the item
            put((False, error))
        finally:
            ended.set()

    threading.Thread(target=fetch, daemon=True, name="attnscan-ahead").start()
    try:
        while True:
            more, item = fetched.get()
            if isinstance(item, BaseException) and not more:
                raise item
            if not more:
                return
            yield item  # type: ignore[misc]
    finally:
        closed.set()
        _wait_for(ended)  # inside a tokenizer when the interpreter ends, the thread would abort the process


def _wait_for(ended: threading.Event) -> None:
    """Give a thread time to end, and raise an interrupt that comes meanwhile after that.

    By an event: an interrupted `Thread.join` takes the thread for ended (Python 3.11).
    """
    interrupt: KeyboardInterrupt | None = None
    until = time.monotonic() + _PATIENCE
    while not ended.is_set() and (left := until - time.monotonic()) > 0:
        try:
            ended.wait(left)
        except KeyboardInterrupt as again:
            interrupt = again
    if interrupt is not None:
        raise interrupt


@dataclass(frozen=True)
class Room:
    """How much a batch may hold."""

    tokens: int
    """Padding included."""
    cells: int | None = None
    """Of weights [query, key], one head's of every input together; None for any number."""

    def holds(self, inputs: int, length: int) -> bool:
        """Whether that many inputs fit, padded to a length."""
        return inputs * length <= self.tokens and (self.cells is None or inputs * length**2 <= self.cells)


def tokens_in_cache(width: object) -> int:
    """How many tokens a CPU runs fastest at once, by the model's `hidden_size` if its config has one.

    Measured: 4,096 tokens at once cost BERT base's layers 2 to 22 % more time than 1,024.
    """
    if not isinstance(width, int) or width < 1:
        return _MOST_ON_CPU
    feed_forward = 4 * 4 * width  # bytes of a token's widest activations, in float32
    return min(_MOST_ON_CPU, max(_FEWEST_ON_CPU, _IN_CACHE // feed_forward))


def batches(inputs: Sequence[EncodedInput], room: Room) -> Iterator[list[EncodedInput]]:
    """Batches of inputs of like length, each as many as there is room for.

    A single input for which there is none makes a batch of its own.
    """
    batch: list[EncodedInput] = []
    for one in sorted(inputs, key=lambda each: len(each.tokens), reverse=True):
        if batch and not room.holds(len(batch) + 1, len(batch[0].tokens)):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch
