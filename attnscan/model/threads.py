"""Work side by side: how many batches run at once, and threads that run them in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from attnscan.model.memory import MAX_CELLS

_MAX_WORKERS = 16
"""Each holds Python's lock for some hundredths of its time."""
_MAX_TOKENS = 65_536
"""Of all batches that run at once, for memory's sake."""
Item = TypeVar("Item")
R = TypeVar("R")


def most_workers(loaded: Any, batch_tokens: int | None, longest: int) -> int:
    """How many batches of inputs of so many tokens run at once: one a core, and one on a GPU."""
    # Such rotary frequencies change with the longest input so far: another thread would disturb
    # them
    rope_types = (getattr(part, "rope_type", None) for part in loaded.model.modules())
    grows = any(rope_type in ("dynamic", "longrope") for rope_type in rope_types)
    if loaded.device.type != "cpu" or grows:
        return 1
    tokens: int = max(loaded.room(batch_tokens), longest)
    by_memory = min(_MAX_TOKENS // tokens, MAX_CELLS // longest**2)
    return max(1, min(torch.get_num_threads(), _MAX_WORKERS, by_memory))


def parallel_map(
    workers: int, items: Iterable[Item], work: Callable[[Item], R]
) -> Generator[tuple[Item, R], None, None]:
    """Do some work on each item, in so many threads, which divide the cores.

    Yields in the order of the items. A forward pass over all cores makes them meet after each of a
    layer's dozen products; a core that runs whole batches waits for none. Items are taken while
    others are worked on. Closing the generator waits for what runs.
    """
    cores = torch.get_num_threads()
    begun: deque[tuple[Item, Future[R]]] = deque()

    def use_share_of_cores() -> None:
        torch.set_num_threads(max(1, cores // workers))

    pool = ThreadPoolExecutor(workers, "attnscan-worker", use_share_of_cores)
    try:
        for item in items:
            begun.append((item, pool.submit(work, item)))
            if len(begun) > 2 * workers:
                first, future = begun.popleft()
                yield first, future.result()
        while begun:
            first, future = begun.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)  # threads that are yet to come start with what was set last


def map_in_this_thread(
    items: Iterable[Item], work: Callable[[Item], R]
) -> Generator[tuple[Item, R], None, None]:
    """Do some work on each item, one after the other. Yields as `parallel_map` does.

    What this thread frees of a long input goes back to the system. The heaps of another thread keep
    it: a gigabyte after 8,192 tokens.
    """
    for item in items:
        yield item, work(item)
