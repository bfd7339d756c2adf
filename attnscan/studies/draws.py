"""What is drawn of an input by the input itself, so that neither its place in a file nor its batch matters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscan.inputs.batch import EncodedInput
from attnscan.results.signature import hashed


def drawn(encoded: EncodedInput, numbers: Sequence[int], most: int, seed: int) -> list[int]:
    """At most so many of some numbers, drawn by a hash of the input's token ids and a seed; in ascending order."""
    ids = str(encoded.model_inputs["input_ids"]).encode()
    rng = np.random.default_rng(int(hashed(str(seed).encode(), ids)[:16], 16))
    return sorted(rng.permutation(numbers)[:most].tolist())
