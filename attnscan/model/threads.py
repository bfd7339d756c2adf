"""Work for one model side by side on a CPU, with results in the order of the pieces.

A forward pass over all cores makes them meet after each of a layer's dozen products. So each thread runs whole batches
on a core; all run the same model.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TypeVar

import torch
from torch.utils.hooks import RemovableHandle

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
    workers: int, items: Iterable[Item], work: Callable[[Item], R], *models: torch.nn.Module
) -> Generator[tuple[Item, R], None, None]:
    """Do some work on each item, so many at a time. Yields in the order of the items.

    Items are taken ahead, a few more than there are workers. An error is raised in its item's place; closing the
    generator ends all work inside the models.
    """
    if workers == 1:
        with closing(ahead(items, 1)) as pending:
            for item in pending:
                yield item, work(item)
    else:
        with closing(_by_threads(workers, items, work, models)) as worked:
            yield from worked


def _by_threads(
    workers: int, items: Iterable[Item], work: Callable[[Item], R], models: Sequence[torch.nn.Module]
) -> Generator[tuple[Item, R], None, None]:
    """Work on the items in so many threads, which divide the cores."""
    threads, stopped = torch.get_num_threads(), threading.Event()
    running: set[Future[R]] = set()

    def start() -> None:
        torch.set_num_threads(max(1, threads // workers))

    def begun() -> Iterator[tuple[Item, Future[R]]]:
        for item in items:
            running.add(future := pool.submit(work, item))
            future.add_done_callback(running.discard)
            yield item, future

    hooks = [_stop_inside(model, stopped) for model in models]
    pool = ThreadPoolExecutor(workers, "attnscan-worker", start)
    try:
        with closing(ahead(begun(), workers)) as begun_ahead:
            try:
                for item, future in begun_ahead:
                    yield item, future.result()
            finally:
                stopped.set()
    finally:
        # If this is interrupted, too, threads are to stop all the same; and only at the end are they joined, since an
        # interrupted join takes them for ended (Python 3.11), and the interpreter would go without them.
        pool.shutdown(wait=False, cancel_futures=True)
        wait(tuple(running))
        pool.shutdown()
        torch.set_num_threads(threads)  # threads that are yet to come start with what was set last
        for hook in itertools.chain.from_iterable(hooks):
            hook.remove()


class _Stopped(Exception):
    """Nobody waits for the work any more."""


def _stop_inside(model: torch.nn.Module, stopped: threading.Event) -> list[RemovableHandle]:
    """Let a model give up inside its next module once it is to stop, until the hooks are removed."""

    def check(_module: torch.nn.Module, _arguments: object) -> None:
        if stopped.is_set():
            raise _Stopped

    return [module.register_forward_pre_hook(check) for module in model.modules()]


def ahead(items: Iterable[T], size: int) -> Generator[T, None, None]:
    """Fetch items in a thread that stays at most `size` of them ahead.

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
