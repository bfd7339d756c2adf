"""A consumer that keeps the attention of a single input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.sentence import EncodedInput
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.attention import Attention, Chosen
from attnscan.results.grid import Grid


class AttentionKeeper:
    """Keeps the attention of a single input, or some heads and some queries' rows of it."""

    def __init__(
        self, norms: Callable[[AttentionBlock], Tensor] | None = None, chosen: Chosen | None = None
    ) -> None:
        """`norms` says how long the vectors are that a block's keys have to give."""
        self._find_norms = norms
        self._chosen = chosen
        self._grid: Grid | None = None
        self._kept: dict[str, NDArray[np.float32]] = {}
        """Weights, lengths, queries and keys, of all heads, or of those chosen.
        Shape: each [head, token, ...]."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if self._grid is None:
            self._start(block)
        places = self._places[block.layer, block.heads]
        is_kept = places >= 0
        into = places[is_kept]
        rows = self._rows - block.rows.start
        inside = np.flatnonzero(rows >= 0)  # of cross attention, the source's tokens have none
        rows = rows[inside]
        keys = block.columns
        self._scaling[block.layer] = block.scaling or 0.0
        if self._visible is not None:
            visible = _to_array(block.visible[:, block.rows, : block.tokens])
            self._visible[block.layer, inside] = visible[rows]
        weights = _to_array(block.weights)[np.ix_(is_kept, rows)]
        self._kept["weights"][into[:, None], inside, keys] = weights
        if "norms" in self._kept and self._find_norms is not None:
            self._kept["norms"][into, keys] = _to_array(self._find_norms(block))[is_kept]
        if len(into):
            self._keep_states("query", block.query, into, block.rows, is_kept)
            self._keep_states("key", block.key, into, keys, is_kept)

    def _keep_states(
        self,
        name: str,
        states: Tensor | None,
        into: NDArray[np.intp],
        tokens: slice,
        is_kept: NDArray[np.bool_],
    ) -> None:
        """Keep a block's queries or keys.

        Gemma 4's heads are wider in some layers than in others: no array holds all of them, and
        none are kept.
        """
        kept = self._kept.get(name)
        if kept is None:
            return
        if states is None or states.shape[-1] != kept.shape[-1]:
            del self._kept[name]
        else:
            kept[into, tokens] = _to_array(states)[is_kept]

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head, or for those that are chosen."""
        self._grid = block.grid
        length = block.tokens
        layers, heads = block.grid.shape
        chosen = self._chosen
        self._rows = np.arange(length) if chosen is None else np.array(chosen.rows)
        self._scaling = [0.0] * layers
        self._visible: NDArray[np.bool_] | None = None
        if chosen is None or chosen.heads is None:
            self._shape = (layers, heads)
            self._places = np.arange(layers * heads).reshape(layers, heads)
            self._visible = np.zeros((layers, len(self._rows), length), dtype=np.bool_)
        else:  # in their order; -1 is none of them
            self._shape = (1, len(chosen.heads))
            self._places = np.full((layers, heads), -1)
            for number, head in enumerate(chosen.heads):
                self._places[head.place] = number
        sizes: dict[str, tuple[int, ...]] = {"weights": (len(self._rows), length)}
        if self._find_norms is not None:
            sizes["norms"] = (length,)
        if block.key is not None:
            sizes["query"] = (length, block.key.shape[-1])
            sizes["key"] = sizes["query"]
        count = math.prod(self._shape)
        self._kept = {name: np.zeros((count, *size), np.float32) for name, size in sizes.items()}

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        assert self._grid is not None
        arrays = {
            name: values.reshape(*self._shape, *values.shape[1:])
            for name, values in self._kept.items()
        }
        return Attention(
            tokens=encoded.tokens,
            sentence=encoded.sentence,
            segments=encoded.segments,
            unit=encoded.unit,
            source=encoded.source,
            weights=arrays["weights"],
            visible=self._visible,
            query=arrays.get("query"),
            key=arrays.get("key"),
            scaling=tuple(self._scaling) if "key" in arrays else (),
            norms=arrays.get("norms"),
            chosen=self._chosen,
            kind=self._grid.kind,
            layers=self._grid.layers,
        )


def _to_array(values: Tensor) -> NDArray[Any]:
    """The values of a block's only input."""
    if values.dtype != torch.bool:
        values = values.float()
    return values[0].cpu().numpy()
