"""What work on pairs tells while it runs: it is a generator of these events, and returns its result.

def similar(scanner, records) -> Steps[Similarity]: ...

result = yield from similar(scanner, records)  # inside other such work
result = outcome(similar(scanner, records))  # where nobody is to be told
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from attnscan.inputs.sentence import Place
    from attnscan.results.scores import FloatArray


@dataclass(frozen=True)
class Progress:
    """What runs now, and how far it is."""

    doing: str
    done: int | None = None
    """How much of it is done; None for what is not counted."""
    total: int | None = None
    """How much there is; None where that is not known."""


@dataclass(frozen=True)
class PairScores:
    """Some pairs' own sums.

    Shape: each of `sums`, as `Scorer.pair_sums` names them, is [pair, layer, head, pattern].
    """

    places: Sequence[Place]
    sums: Mapping[str, FloatArray]


T = TypeVar("T")
Steps = Generator[Progress | PairScores, None, T]
"""Work that tells how far it is, and returns its result."""


def outcome(steps: Generator[Any, None, T], listen: Callable[[Any], None] | None = None) -> T:
    """Run work to its end and return its result; `listen` is called with each event.

    Raises: what the work or `listen` raises.
    """
    with closing(steps):
        while True:
            try:
                event = next(steps)
            except StopIteration as ended:
                result: T = ended.value
                return result
            if listen is not None:
                listen(event)
