"""Iterators for streams of any length: read ahead in the background, gathered, sorted, batched. Bounded memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from attnscan.batch import EncodedInput

T = TypeVar("T")


def ahead(items: Iterable[T], size: int) -> Iterator[T]:
    """The same items, fetched by a thread that stays at most `size` items ahead.

    An error while fetching is raised here, in its place. Closing the iterator ends the thread.
    """
    fetched: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(maxsize=size)
    closed = threading.Event()

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


def batches(inputs: Sequence[EncodedInput], batch_tokens: int) -> Iterator[list[EncodedInput]]:
    """Batches of inputs of like length, each filled by tokens: at most `batch_tokens`, padding included.

    A single input that is longer makes a batch of its own.
    """
    batch: list[EncodedInput] = []
    for one in sorted(inputs, key=lambda each: len(each.tokens), reverse=True):
        longest = len(batch[0].tokens) if batch else 0
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch
