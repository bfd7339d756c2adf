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
    kind: AttentionKind = AttentionKind.ONLY
    value_norms: Tensor | None = None
    """Of what heads carry, how long each key's vector is, ‖f(x_j)‖; None of weights. Shape: [batch, head, key]."""
    output: Tensor | None = None
    """What the weights make of the values, where it is known. Shape: [batch, head, query, dimension]."""

    @property
    def rows(self) -> slice:
        """Which tokens the queries are."""
        start = self.weights.shape[3] if self.kind is AttentionKind.CROSS else 0
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


def same_or(before: Tensor, now: Tensor) -> Tensor:
    """The mask of the layer before, if this layer's is equal: what follows from an object is worked out once."""
    return before if torch.equal(before, now) else now


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
        self._scaling[block.layer] = block.scaling or 0.0
        layer, kept = block.layer, block.rows
        into: slice | list[int] = block.heads
        heads: slice | list[int] = slice(None)
        rows: slice | list[int] = slice(None)
        if self._chosen is not None:
            first, stop = np.searchsorted(self._chosen.rows, (block.rows.start, block.rows.stop))
            kept, rows = slice(first, stop), [row - block.rows.start for row in self._chosen.rows[first:stop]]
        if self._visible is not None:
            self._visible[block.layer, kept] = _array(block.visible[:1, block.rows, : block.tokens][:, rows])
        if self._chosen is not None and self._chosen.heads is not None:
            first, stop, _ = block.heads.indices(block.grid.shape[1])
            own = [(i, h.head) for i, h in enumerate(self._chosen.heads) if h.row == layer and first <= h.head < stop]
            layer, into, heads = 0, [i for i, _ in own], [head - first for _, head in own]
        self.weights[layer, into, kept, block.columns] = _array(block.weights[:, heads][:, :, rows])
        if self._norms_of is not None and block.value is not None:
            self._norms[layer, into, block.columns] = _array(self._norms_of(block)[:, heads])
        if self._neurons is not None and block.query is not None and block.key is not None:
            self._neurons[0, layer, into, block.rows] = _array(block.query[:, heads])
            self._neurons[1, layer, into, block.columns] = _array(block.key[:, heads])

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head, or for those that are chosen."""
        self._grid, length, chosen = block.grid, block.tokens, self._chosen
        every_layer, rows = block.grid.shape[0], length if chosen is None else len(chosen.rows)
        in_full = chosen is None or chosen.heads is None
        shape = block.grid.shape if chosen is None or chosen.heads is None else (1, len(chosen.heads))
        self.weights = np.zeros((*shape, rows, length), dtype=np.float32)
        """Shape: [layer, head, query, key]."""
        self._visible = np.zeros((every_layer, rows, length), dtype=np.bool_) if in_full else None
        self._scaling = [0.0] * every_layer
        self._norms = np.zeros((*shape, length), dtype=np.float32)
        self._neurons = None
        if block.key is not None:
            self._neurons = np.zeros((2, *shape, length, block.key.shape[-1]), dtype=np.float32)

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        assert self._grid is not None
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
            norms=None if self._norms_of is None else self._norms,
            chosen=self._chosen,
            kind=self._grid.kind,
            layers=self._grid.layers,
            source=encoded.source,
        )


def _array(values: Tensor) -> NDArray[Any]:
    return (values if values.dtype == torch.bool else values.float())[0].cpu().numpy()
