"""A consumer of attention blocks that keeps one input's attention, or a part of it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.carried import OutputProjections
from attnscan.results.attention import Attention, Chosen
from attnscan.results.grid import Grid

_Places: TypeAlias = "slice | list[int]"


class AttentionKeeper:
    """A consumer that keeps the attention of a single input and, given projections, its keys' norms."""

    def __init__(self, projections: OutputProjections | None = None, chosen: Chosen | None = None) -> None:
        """Keep all or, of a part that is `chosen`, some heads and some queries' rows."""
        self._projections, self._chosen = projections, chosen
        self._grid: Grid | None = None
        self._neurons: NDArray[np.float32] | None = None

    def __call__(self, block: AttentionBlock) -> None:
        if block.grid != self._grid or (block.query is None) != (self._neurons is None):
            self._start(block)
        if block.query is not None and block.key is not None and block.scaling is not None:
            self._scaling[block.layer] = block.scaling
        layer, into, heads = self._place(block)
        if heads == []:
            return
        numbers, rows = self._rows(block.rows)
        self.weights[layer, into, numbers, block.columns] = _array(block.weights[:, heads][:, :, rows])
        if self._visible is not None:
            seen = block.visible[slice(0, 1), block.rows, slice(block.tokens)][:, rows]
            self._visible[block.layer, numbers] = _array(seen)
        if self._projections is not None and block.value is not None:
            norms = self._projections.of_values(block)
            self._norms[layer, into, : norms.shape[-1]] = _array(norms[:, heads])
        if block.query is not None and block.key is not None:
            assert self._neurons is not None
            self._neurons[0][layer, into, block.rows] = _array(block.query[:, heads])
            self._neurons[1][layer, into, : block.key.shape[2]] = _array(block.key[:, heads])

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head, or for those that are chosen."""
        self._grid, shape, length = block.grid, block.grid.shape, block.tokens
        every_layer, heads = shape[0], None if self._chosen is None else self._chosen.heads
        shape = shape if heads is None else (1, len(heads))
        rows = length if self._chosen is None else len(self._chosen.rows)
        self.weights = np.zeros((*shape, rows, length), dtype=np.float32)
        """Shape: [layer, head, query, key]."""
        self._visible = np.zeros((every_layer, rows, length), dtype=np.bool_) if heads is None else None
        self._scaling = [0.0] * every_layer
        self._norms = np.zeros((*shape, length), dtype=np.float32)
        self._neurons = None
        if block.key is not None:
            self._neurons = np.zeros((2, *shape, length, block.key.shape[-1]), dtype=np.float32)

    def _place(self, block: AttentionBlock) -> tuple[int, _Places, _Places]:
        """Where a block's heads stand in the arrays, by layer and head, and which of the block's they are."""
        if self._chosen is None or self._chosen.heads is None:
            return block.layer, block.heads, slice(None)
        first, stop, _ = block.heads.indices(block.grid.shape[1])
        there = [(i, h) for i, h in enumerate(self._chosen.heads) if h.layer == block.layer and first <= h.head < stop]
        return 0, [number for number, _ in there], [head.head - first for _, head in there]

    def _rows(self, queries: slice) -> tuple[slice, _Places]:
        """Where the rows of a range of queries stand in the arrays, and which of the range's they are."""
        if self._chosen is None:
            return queries, slice(None)
        first, stop = np.searchsorted(self._chosen.rows, (queries.start, queries.stop))
        return slice(first, stop), [row - queries.start for row in self._chosen.rows[first:stop]]

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        query, key = (None, None) if self._neurons is None else self._neurons
        assert self._grid is not None
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
            chosen=self._chosen,
            kind=self._grid.kind,
            layers=self._grid.layers,
            source=encoded.source,
        )


def _array(values: Tensor) -> NDArray[Any]:
    return (values if values.dtype == torch.bool else values.float())[0].cpu().numpy()
