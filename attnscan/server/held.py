"""A result held as bytes in memory of its own: its size is exact, and the system gets all of it back.

Arrays of many sizes that live for long among those of each new run leave holes that the allocator cannot return: held
as they were, 256 MiB of answers grew the process by 530 MiB.
"""

from __future__ import annotations

import mmap
import pickle
from itertools import accumulate
from typing import cast

from attnscan.results.classification import Classification

_LINE = 64  # bytes of a cache line, on which every array begins


class HeldResult:
    """A result, packed."""

    def __init__(self, result: Classification) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self._frame = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        starts = list(accumulate((-(-array.nbytes // _LINE) * _LINE for array in arrays), initial=0))
        self._slices = [slice(start, start + array.nbytes) for start, array in zip(starts, arrays, strict=False)]
        self._memory = mmap.mmap(-1, starts[-1] or 1)
        for place, array in zip(self._slices, arrays, strict=True):
            self._memory[place] = array

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self._frame) + len(self._memory)

    def result(self) -> Classification:
        """Unpack it; the arrays lie in the held memory, and cannot be written to."""
        memory = memoryview(self._memory).toreadonly()
        return cast("Classification", pickle.loads(self._frame, buffers=[memory[place] for place in self._slices]))
