"""What main memory allows: how much of it is free, and how many inputs of a length it holds."""

import re
from contextlib import suppress
from pathlib import Path

from attnscan.errors import MemoryFullError

MAX_CELLS = 1 << 26
"""The most cells of one head's weights, of all batches that run at once: each is held some three
times over, in float32."""
_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes of main memory that are free; None if that is not known.

    They are the least that the system and this process's control group tell.
    """
    free: list[int] = []
    with suppress(OSError, ValueError):
        about = Path("/proc/meminfo").read_text()
        free += [1024 * int(kib) for kib in re.findall(r"MemAvailable:\s+(\d+)", about)]
    with suppress(OSError, ValueError):
        limit = int((_GROUP / "memory.max").read_text())  # "max" is no number: no limit
        free.append(limit - int((_GROUP / "memory.current").read_text()))
    return max(0, min(free)) if free else None


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raises: MemoryFullError if main memory is known not to hold so many bytes more.

    This is asked before any is taken.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise MemoryFullError(
            f"{what} takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free",
            remedy,
        )


def is_too_long(length: int, workers: int) -> bool:
    """Whether memory does not take as many inputs of that length as there are workers."""
    return workers * length**2 > MAX_CELLS
