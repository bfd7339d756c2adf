"""What a tap shows: blocks of a layer's attention, whoever reads them; which keys a query may see; what keeps them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.results.attention import Attention, Chosen
from attnscan.results.terms import AttentionKind, Grid

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
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0."""
    visible: Tensor
    """Which keys each query of the batch may see. Shape: [batch, token, token], bool, of all inputs; the same object
    in layers with the same mask, so that what follows from it is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling. Shape: [batch, head, query, dimension]; None if none is known."""
    key: Tensor | None
    """Likewise, repeated for each head of a group. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without queries."""
    logits: Tensor | None
    """What the softmax is of, mask included, finite throughout. Shape: that of `weights`; None of saved weights."""
    value: Tensor | None = None
    """What the weights are of, repeated for each head of a group. Shape: [batch, head, key, dimension]."""
    idle: Tensor | None = None
    """Which queries take nothing from any key, so that their rows are zero. Shape: [batch, head, query], bool."""
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
    """Which tokens see which, where a target's tokens are counted behind its source's; `sizes` are of both.

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
        self._kept: dict[str, NDArray[np.float32]] = {}
        """Weights, lengths, queries and keys. Shape: each [head, token, ...], of all heads, or of those chosen."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if self._grid is None:
            self._start(block)
        into, rows = self._place[block.layer, block.heads], self._rows - block.rows.start
        own, inside = into >= 0, np.flatnonzero((rows >= 0) & (rows < block.weights.shape[2]))
        into, rows, keys = into[own], rows[inside], block.columns
        self._scaling[block.layer] = block.scaling or 0.0
        if self._visible is not None:
            self._visible[block.layer, inside] = _array(block.visible[:, block.rows, : block.tokens])[rows]
        self._kept["weights"][into[:, None], inside, keys] = _array(block.weights)[np.ix_(own, rows)]
        if "norms" in self._kept and self._norms_of is not None:
            self._kept["norms"][into, keys] = _array(self._norms_of(block))[own]
        for name, states, places in (("query", block.query, block.rows), ("key", block.key, keys)):
            if name in self._kept and states is not None:
                self._kept[name][into, places] = _array(states)[own]

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head, or for those that are chosen."""
        self._grid, length, chosen = block.grid, block.tokens, self._chosen
        self._rows = np.arange(length) if chosen is None else np.array(chosen.rows)
        self._shape, self._place = block.grid.shape, np.arange(np.prod(block.grid.shape)).reshape(block.grid.shape)
        self._scaling = [0.0] * self._shape[0]
        self._visible: NDArray[np.bool_] | None = np.zeros((self._shape[0], len(self._rows), length), dtype=np.bool_)
        if chosen is not None and chosen.heads is not None:  # in their order; -1 is none of them
            self._shape, self._visible, self._place = (1, len(chosen.heads)), None, np.full(block.grid.shape, -1)
            self._place[tuple(zip(*(head.place for head in chosen.heads), strict=True))] = np.arange(self._shape[1])
        sizes: dict[str, tuple[int, ...]] = {"weights": (len(self._rows), length)}
        if self._norms_of is not None:
            sizes["norms"] = (length,)
        if block.key is not None:
            sizes |= dict.fromkeys(("query", "key"), (length, block.key.shape[-1]))
        self._kept = {name: np.zeros((math.prod(self._shape), *size), np.float32) for name, size in sizes.items()}

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        assert self._grid is not None
        kept = {name: values.reshape(*self._shape, *values.shape[1:]) for name, values in self._kept.items()}
        known = {name: getattr(encoded, name) for name in ("tokens", "sentence", "segments", "unit", "source")}
        return Attention(
            **known,
            weights=kept["weights"],
            visible=self._visible,
            query=kept.get("query"),
            key=kept.get("key"),
            scaling=tuple(self._scaling) if "key" in kept else (),
            norms=kept.get("norms"),
            chosen=self._chosen,
            kind=self._grid.kind,
            layers=self._grid.layers,
        )


def _array(values: Tensor) -> NDArray[Any]:
    """What a block says of its one input."""
    return (values if values.dtype == torch.bool else values.float())[0].cpu().numpy()
