"""Batches that a device's memory does not hold: halved until they fit, down to one input."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch

from attnscan.errors import MemoryFullError
from attnscan.inputs.sentence import EncodedInput
from attnscan.scan.options import note
from attnscan.scan.scanner import Scanner

Batch = list[EncodedInput]
Result = TypeVar("Result")


@dataclass
class BatchLimit:
    """The most tokens of a batch, padding included, that a device's memory is found to hold."""

    scanner: Scanner
    tokens: float = math.inf

    def take(self, batch: Batch) -> tuple[Batch, Batch]:
        """As much of a batch as fits, and the rest."""
        count = max(1, int(min(len(batch), self.tokens // _longest(batch))))
        return batch[:count], batch[count:]

    def lower(self, batch: Batch) -> None:
        """Halve what runs at once, after a batch that did not fit.

        Raises: MemoryFullError if that was one input.
        """
        longest = _longest(batch)
        device = self.scanner.loaded.device
        if len(batch) == 1:
            size = self.scanner.memory_of_input(longest) / 1e9
            raise MemoryFullError(
                f"an input of {longest:,} tokens takes about {size:.2g} GB beside the model, "
                f"and the memory of {device} does not hold it",
                "use a shorter input, ``dtype=float16``, or ``device=cpu``",
            )
        half = len(batch) // 2
        self.tokens = half * longest
        note(
            f"{len(batch)} inputs of {longest:,} tokens do not fit into the memory of {device} "
            f"at once: going on with {half}"
        )


def work_in_parts(
    work: Callable[[Batch], Result], batch: Batch, limit: BatchLimit
) -> Iterator[tuple[Batch, Result]]:
    """Do some work on a batch, in parts that the device's memory holds.

    Yields each part and its result. Raises: MemoryFullError if it does not hold one input.
    """
    while batch:
        part, rest = limit.take(batch)
        results = _try(work, part)
        if results:
            yield part, results[0]
            batch = rest
        else:
            limit.lower(part)


def _try(work: Callable[[Batch], Result], batch: Batch) -> list[Result]:
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


def _longest(batch: Batch) -> int:
    return max(len(encoded.tokens) for encoded in batch)
