"""Other bases of a head: random rotations of its queries and keys, which change no weight.

Rotated together, q R · k R = q · k. What is measured of single neurons changes, and shows what the same head would
give in a basis that nothing was learned in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attnscan.studies.draws import generator

ROTATIONS = 8


class Rotations:
    """Random orthogonal matrices of every head, drawn once for all inputs, so that sums over inputs add.

    They depend on the seed, the layer and the head alone.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: dict[tuple[int, int, int], Tensor] = {}

    def of(self, layer: int, heads: Sequence[int], size: int) -> Tensor:
        """Of some heads of a layer. Shape: [rotation, head, size, size], float32."""
        return torch.stack([self._of_head(layer, head, size) for head in heads], 1)

    def _of_head(self, layer: int, head: int, size: int) -> Tensor:
        key = (layer, head, size)
        if key not in self._drawn:
            turns = orthogonal(generator(self._seed, layer, head), ROTATIONS, size)
            self._drawn[key] = torch.from_numpy(turns).float()
        return self._drawn[key]


def orthogonal(rng: np.random.Generator, count: int, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Orthogonal matrices, every one as probable as any other. Shape: [count, size, size].

    Q of a Gaussian matrix's QR is so only if R's diagonal is positive, which the algorithm leaves open.
    Source: Mezzadri, "How to Generate Random Matrices from the Classical Compact Groups", Notices of the AMS 54 (2007).
    """
    q, r = np.linalg.qr(rng.standard_normal((count, size, size)))
    turned: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = q * np.sign(np.einsum("rii->ri", r))[:, None, :]
    return turned
