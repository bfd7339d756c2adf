"""Work for one model side by side on a CPU, with results in the order of the pieces.

A forward pass over all cores makes them meet after each of a layer's dozen products. So each thread runs whole batches
on a core; all run the same model.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TypeVar

import torch

from attnscan.model.loaded import LoadedModel
from attnscan.model.running import free_memory

_MOST_WORKERS = 16  # each holds Python's lock for some hundredths of its time
_MOST_TOKENS = 65_536  # of all batches that run at once, for memory's sake
_MOST_CELLS = 1 << 26  # of one head's weights, likewise: each is held some three times over, in float32
_PATIENCE = 2.0  # seconds for the last item: standard input can keep a thread waiting for ever

T = TypeVar("T")
Item = TypeVar("Item")
R = TypeVar("R")


def most_workers(loaded: LoadedModel, batch_tokens: int | None, longest: int) -> int:
    """How many batches may run at once, of inputs of so many tokens at most.

    One a core, as far as memory goes; one on a GPU.
    """
    if loaded.device.type != "cpu":
        return 1
    tokens, free = loaded.room(batch_tokens).tokens, free_memory()
    by_tokens, by_cells = _MOST_TOKENS // tokens, _MOST_CELLS // longest**2
    by_memory = _MOST_WORKERS if free is None else free // loaded.needs(max(tokens, longest), longest)
    workers = max(1, min(torch.get_num_threads(), _MOST_WORKERS, by_tokens, by_cells, by_memory))
    return 1 if workers > 1 and loaded.remembers_runs else workers


def is_too_long(length: int, workers: int) -> bool:
    """Whether memory does not take as many inputs of that length as there are workers."""
    return workers * length**2 > _MOST_CELLS


def side_by_side(
    workers: int, items: Iterable[Item], work: Callable[[Item], R]
) -> Generator[tuple[Item, R], None, None]:
    """Do some work on each item, so many at a time. Yields in the order of the items.

    Items are taken ahead, a few more than there are workers. An error is raised in its item's place; closing the
    generator waits for the work that runs, and starts no other.
    """
    if workers > 1:
        yield from _by_threads(workers, items, work)
        return
    with closing(ahead(items, 1)) as fetched:
        for item in fetched:
            yield item, work(item)


def _by_threads(
    workers: int, items: Iterable[Item], work: Callable[[Item], R]
) -> Generator[tuple[Item, R], None, None]:
    """Work on the items in so many threads, which divide the cores."""
    threads = torch.get_num_threads()

    def start() -> None:
        torch.set_num_threads(max(1, threads // workers))

    def begun() -> Iterator[tuple[Item, Future[R]]]:
        for item in items:
            yield item, pool.submit(work, item)

    pool = ThreadPoolExecutor(workers, "attnscan-worker", start)
    try:
        with closing(ahead(begun(), workers)) as begun_ahead:
            for item, future in begun_ahead:
                yield item, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # threads that are yet to come start with what was set last


def ahead(items: Iterable[T], size: int) -> Generator[T, None, None]:
    """Fetch items in a thread that stays at most `size` of them ahead.

    An error while fetching is raised here, in its place. Closing the iterator ends the thread.
    """
    fetched: queue.Queue[tuple[T | None, BaseException | None, bool]] = queue.Queue(maxsize=size)
    closed = threading.Event()

    def put(item: T | None, error: BaseException | None = None, *, last: bool = False) -> None:
        while not closed.is_set():
            with suppress(queue.Full):
                fetched.put((item, error, last), timeout=0.1)
                break

    def fetch() -> None:
        try:
            for item in items:
                put(item)
                if closed.is_set():
                    return
            put(None, last=True)
        except BaseException as error:  # whatever it is, it belongs to whoever asks for the item
            put(None, error, last=True)

    thread = threading.Thread(target=fetch, daemon=True, name="attnscan-ahead")
    thread.start()
    try:
        while True:
            item, error, last = fetched.get()
            if error is not None:
                raise error
            if last:
                return
            yield item  # type: ignore[misc]
    finally:
        closed.set()
        thread.join(_PATIENCE)  # inside a tokenizer when the interpreter ends, the thread would abort the process
