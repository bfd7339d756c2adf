"""What a tap shows: blocks of a layer's attention, whoever reads them; which keys a query may see; what keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.results.attention import Attention, Chosen
from attnscan.results.grid import AttentionKind, Grid

OnOutput = Callable[[int, Tensor], None]
"""Given a layer's number and its heads' outputs [batch, token, head, dimension], which it may change in place."""


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch and some heads, with whole rows.

    In cross attention keys are of another text than queries: the target's tokens are counted behind the source's.
    """

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    """Where the layer stands in the grid."""
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0. On a CPU
    and without the tap, padding at the inputs' end is left out: they are all of one length."""
    visible: Tensor
    """Which keys each query of the batch may see, those of other inputs too. Shape: [batch, token, token],
    bool. Layers with the same mask carry the same object, so that what follows from it is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling. Shape: [batch, head, query, dimension]; None if none is known."""
    key: Tensor | None
    """Likewise, of all keys; grouped ones are repeated for each head. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without queries."""
    logits: Tensor | None
    """What the softmax is of, mask included, finite throughout. Shape: that of `weights`; None of saved weights."""
    value: Tensor | None = None
    """What the weights are of; grouped values are repeated for each head. Shape: [batch, head, key, dimension]."""
    idle: Tensor | None = None
    """Which queries take nothing from any key, so that their rows are zero. Shape: [batch, head, query], bool; None
    if there are none, as there are none of weights."""
    value_norms: Tensor | None = None
    """Of what heads carry, how long each key's vector is, ‖f(x_j)‖; None of weights. Shape: [batch, head, key]."""
    output: Tensor | None = None
    """What the weights make of the values, where it is known. Shape: [batch, head, query, dimension]."""

    @property
    def rows(self) -> slice:
        """Which tokens the queries are."""
        start = self.weights.shape[3] if self.grid.kind is AttentionKind.CROSS else 0
        return slice(start, start + self.weights.shape[2])

    @property
    def columns(self) -> slice:
        """Which tokens the keys are."""
        return slice(0, self.weights.shape[3])

    @property
    def tokens(self) -> int:
        """How many tokens the inputs have; in cross attention both texts together."""
        return int(max(self.rows.stop, self.columns.stop))


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order."""


def of_both_texts(visible: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Which tokens see which, where a target's tokens are counted behind its source's.

    `sizes` says how many tokens the target and the source of each input have.
    Shape: `visible` [batch, target token, source token], bool -> [batch, token, token].
    """
    width = max(map(sum, sizes))
    whole = visible.new_zeros(len(sizes), width, width)
    for number, (target, source) in enumerate(sizes):
        whole[number, source : source + target, :source] = visible[number, :target, :source]
    return whole


def visible_keys(weights: Tensor, present: Tensor) -> Tensor:
    """Which keys each query may see, judged by saved weights, with which there is no mask to read.

    Hidden are padding, and keys at a distance that no head of the layer ever attends to.
    Shape: `weights` [batch, head, query, key], `present` [batch, key] -> [batch, query, key], bool.
    """
    batch, _, length, keys = weights.shape
    place = torch.arange(length, device=weights.device)[:, None] - torch.arange(keys, device=weights.device)[None]
    used = (weights != 0).any(1) & present.bool()[:, :, None]  # a query of padding spreads evenly over all
    offsets = torch.zeros(length + keys, dtype=torch.bool, device=weights.device)
    offsets[(place[None].expand(batch, -1, -1) + keys)[used]] = True
    return offsets[place + keys].expand(batch, length, keys) & present.bool()[:, None, :]


class AttentionKeeper:
    """A consumer that keeps the attention of a single input, or some heads and some queries' rows of it."""

    def __init__(self, norms: Callable[[AttentionBlock], Tensor] | None = None, chosen: Chosen | None = None) -> None:
        """`norms` says how long the vectors are that a block's keys have to give."""
        self._norms_of, self._chosen = norms, chosen
        self._grid: Grid | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if self._grid is None:
            self._start(block)
        into, rows = self._place[block.layer, block.heads], self._rows - block.rows.start
        own, kept = into >= 0, np.flatnonzero((rows >= 0) & (rows < block.weights.shape[2]))
        into, rows, keys = into[own], rows[kept], block.columns
        self._scaling[block.layer] = block.scaling or 0.0
        if self._visible is not None:
            self._visible[block.layer, kept] = _array(block.visible[:, block.rows, : block.tokens])[rows]
        self._weights[into[:, None], kept, keys] = _array(block.weights)[np.ix_(own, rows)]
        if self._norms_of is not None and block.value is not None:
            self._norms[into, keys] = _array(self._norms_of(block))[own]
        if self._neurons is not None and block.query is not None and block.key is not None:
            self._neurons[0, into, block.rows] = _array(block.query)[own]
            self._neurons[1, into, keys] = _array(block.key)[own]

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head, or for those that are chosen."""
        self._grid, length, chosen = block.grid, block.tokens, self._chosen
        self._rows = np.arange(length) if chosen is None else np.array(chosen.rows)
        self._shape, self._place = block.grid.shape, np.arange(np.prod(block.grid.shape)).reshape(block.grid.shape)
        self._scaling, count = [0.0] * block.grid.shape[0], self._place.size
        self._visible: NDArray[np.bool_] | None = np.zeros((self._shape[0], len(self._rows), length), dtype=np.bool_)
        if chosen is not None and chosen.heads is not None:  # in their order; -1 is none of them
            self._shape, self._visible, count = (1, len(chosen.heads)), None, len(chosen.heads)
            self._place = np.full(block.grid.shape, -1)
            self._place[tuple(zip(*(head.place for head in chosen.heads), strict=True))] = np.arange(count)
        self._weights = np.zeros((count, len(self._rows), length), dtype=np.float32)
        self._norms, self._neurons = np.zeros((count, length), dtype=np.float32), None
        if block.key is not None:
            self._neurons = np.zeros((2, count, length, block.key.shape[-1]), dtype=np.float32)

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        assert self._grid is not None

        def by_layer(values: NDArray[np.float32]) -> NDArray[np.float32]:
            return values.reshape(*self._shape, *values.shape[1:])

        return Attention(
            tokens=encoded.tokens,
            sentence=encoded.sentence,
            segments=encoded.segments,
            weights=by_layer(self._weights),
            visible=self._visible,
            query=None if self._neurons is None else by_layer(self._neurons[0]),
            key=None if self._neurons is None else by_layer(self._neurons[1]),
            scaling=() if self._neurons is None else tuple(self._scaling),
            unit=encoded.unit,
            norms=None if self._norms_of is None else by_layer(self._norms),
            chosen=self._chosen,
            kind=self._grid.kind,
            layers=self._grid.layers,
            source=encoded.source,
        )


def _array(values: Tensor) -> NDArray[Any]:
    """What a block says of its one input."""
    return (values if values.dtype == torch.bool else values.float())[0].cpu().numpy()
