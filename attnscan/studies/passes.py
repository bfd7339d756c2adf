"""One pass over a stream of pairs, and what is drawn at random in it: by a seed and tokens, never by place or batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.scan.local import OnBad, work_through
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen
from attnscan.scoring.blocks import added
from attnscan.text import hashed


def sums_over(
    scanner: Scanner,
    records: Iterable[Record],
    work: Callable[[Sequence[EncodedInput]], Any],
    doing: str,
    on_bad: OnBad | None = None,
    others: Sequence[Scanner] = (),
) -> tuple[Any, Seen]:
    """Add up what `work` makes of each batch, None if there is no pair; and what was read."""
    total, seen = None, Seen()

    def take(_batch: object, result: Any, now: Seen | None) -> None:
        nonlocal total, seen
        total, seen = added(total, result), now or seen

    work_through(scanner, records, work, take, doing, on_bad, others=others)
    return total, seen


def generator(seed: int, *numbers: int) -> np.random.Generator:
    """Seed one of several numbered draws by the list of all numbers: by their sum, seeds would share draws."""
    return np.random.default_rng([seed, *numbers])


def drawn(encoded: EncodedInput, numbers: Sequence[int], most: int, seed: int) -> list[int]:
    """At most so many of some numbers, drawn by a hash of the input's token ids and a seed; in ascending order."""
    ids = str(encoded.model_inputs["input_ids"]).encode()
    rng = np.random.default_rng(int(hashed(str(seed).encode(), ids)[:16], 16))
    return sorted(rng.permutation(numbers)[:most].tolist())
