"""What is drawn at random: by a seed and numbers, such as an input's token ids, never by its place or its batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscan.hashing import hashed
from attnscan.inputs.batch import EncodedInput


def generator(seed: int, *numbers: int) -> np.random.Generator:
    """Seed one of several numbered draws by the list of all numbers.

    By their sum, draw 1 of seed 0 would be draw 0 of seed 1, and errors over seeds would look small.
    """
    return np.random.default_rng([seed, *numbers])


def drawn(encoded: EncodedInput, numbers: Sequence[int], most: int, seed: int) -> list[int]:
    """At most so many of some numbers, drawn by a hash of the input's token ids and a seed; in ascending order."""
    ids = str(encoded.model_inputs["input_ids"]).encode()
    rng = np.random.default_rng(int(hashed(str(seed).encode(), ids)[:16], 16))
    return sorted(rng.permutation(numbers)[:most].tolist())
