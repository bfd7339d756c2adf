"""A consumer of attention blocks that keeps all of one input's attention."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnscan.inputs.batch import EncodedInput
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.carried import OutputProjections
from attnscan.results.attention import Attention
from attnscan.results.grid import Grid


class AttentionKeeper:
    """A consumer that keeps the attention of a single input and, given projections, its keys' norms."""

    def __init__(self, projections: OutputProjections | None = None) -> None:
        self._projections = projections
        self._grid: Grid | None = None
        self._neurons: NDArray[np.float32] | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if block.grid != self._grid or (block.query is None) != (self._neurons is None):
            self._grid, (layers, heads) = block.grid, block.grid.shape
            length = block.tokens
            self.weights = np.zeros((layers, heads, length, length), dtype=np.float32)
            """Shape: [layer, head, query, key]."""
            self._visible = np.empty((layers, length, length), dtype=np.bool_)
            self._scaling = [0.0] * layers
            self._norms = np.empty((layers, heads, length), dtype=np.float32)
            self._neurons = None
            if block.key is not None:
                self._neurons = np.empty((2, layers, heads, *block.key.shape[2:]), dtype=np.float32)
        place, every = (block.layer, block.heads), slice(block.tokens)
        self.weights[*place, block.rows, block.columns] = block.weights[0].cpu().numpy()
        self._visible[block.layer, block.rows] = block.visible[slice(0, 1), block.rows, every][0].cpu().numpy()
        if self._projections is not None and block.value is not None:
            self._norms[place] = self._projections.norms(block.layer, block.heads, block.value)[0].cpu().numpy()
        if block.query is not None and block.key is not None and block.scaling is not None:
            assert self._neurons is not None
            self._neurons[0][*place, block.rows] = block.query[0].float().cpu().numpy()
            self._neurons[1][place] = block.key[0].float().cpu().numpy()
            self._scaling[block.layer] = block.scaling

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        query, key = (None, None) if self._neurons is None else self._neurons
        return Attention(
            tokens=encoded.tokens,
            sentence=encoded.sentence,
            segments=encoded.segments,
            weights=self.weights,
            visible=self._visible,
            query=query,
            key=key,
            scaling=() if query is None else tuple(self._scaling),
            unit=encoded.unit,
            norms=None if self._projections is None else self._norms,
        )
