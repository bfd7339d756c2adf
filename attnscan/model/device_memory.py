"""Inputs that a device's memory does not hold: halved until they fit, down to one."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from attnscan.errors import MemoryFullError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class BatchLimit:
    """The most tokens of a batch, padding included, that a device's memory is found to hold."""

    device: torch.device
    memory_of_input: Callable[[int], int]
    """About how many bytes an input of so many tokens takes beside the model."""
    note: Callable[[str], object]
    """Says that a batch was halved."""
    tokens: int = sys.maxsize

    def most(self, longest: int) -> int:
        """How many inputs of so many tokens run at once, one at least."""
        return max(1, self.tokens // longest)

    def lower(self, count: int, longest: int) -> None:
        """Halve what runs at once, after so many inputs that did not fit.

        Raises: MemoryFullError if that was one input.
        """
        if count == 1:
            raise self.too_large(longest)
        half = count // 2
        self.tokens = half * longest
        self.note(
            f"{count} inputs of {longest:,} tokens do not fit into the memory of {self.device} "
            f"at once: going on with {half}"
        )

    def too_large(self, tokens: int) -> MemoryFullError:
        """The error for one input of so many tokens."""
        size = self.memory_of_input(tokens) / 1e9
        return MemoryFullError(
            f"an input of {tokens:,} tokens takes about {size:.2g} GB beside the model, "
            f"and the memory of {self.device} does not hold it",
            "use a shorter input, ``dtype=float16``, or ``device=cpu``",
        )

    @contextmanager
    def around_one(self, tokens: int) -> Iterator[None]:
        """Around the run of one input of so many tokens.

        Raises: MemoryFullError, which says how much it takes, if the memory does not hold it.
        """
        try:
            yield
        except Exception as error:
            if not _is_device_full(error):
                raise
            raise self.too_large(tokens) from None


def work_in_parts(
    work: Callable[[list[Item]], Result],
    batch: list[Item],
    longest: Callable[[Sequence[Item]], int],
    limit: BatchLimit,
) -> Iterator[tuple[list[Item], Result]]:
    """Do some work on a batch, in parts that the device's memory holds.

    `longest` tells how many tokens the longest of some inputs has. Yields each part and its result.
    Raises: MemoryFullError if the memory does not hold one input.
    """
    while batch:
        most = limit.most(longest(batch))
        part = batch[:most]
        results = _try(work, part)
        if results:
            yield part, results[0]
            batch = batch[most:]
        else:
            limit.lower(len(part), longest(part))


def _try(work: Callable[[list[Item]], Result], batch: list[Item]) -> list[Result]:
    """The result of some work, as a list; empty if the device's memory does not hold it."""
    try:
        return [work(batch)]
    except Exception as error:
        if not _is_device_full(error):
            raise
    # The error is gone, and with it what its frames held
    torch.cuda.empty_cache()
    return []


def _is_device_full(error: BaseException | None) -> bool:
    """Whether the memory of a device other than the CPU ran out, by an error or what led to it."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError) or "MPS backend out of memory" in str(error):
            return True
        error = error.__cause__
    return False
