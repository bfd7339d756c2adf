"""What a tap shows: blocks of a layer's attention, whoever reads them and from wherever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from attnscan.results.grid import AttentionKind, Grid

OnOutput = Callable[[int, Tensor], None]
"""Given a layer's number and its heads' outputs [batch, token, head, dimension], which it may change in place."""


class Visible(Protocol):
    """Which keys each query of a batch may see: a tensor, or a mask that is worked out for the cells asked for."""

    def __getitem__(self, cells: tuple[slice, slice, slice], /) -> Tensor:
        """Of some inputs, queries and keys. Shape: [batch, query, key], bool."""


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch and some heads, with whole rows."""

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0. On a CPU
    and without the tap, padding at the inputs' end is left out: they are all of one length."""
    visible: Visible
    """Which keys each query of the batch may see, those of other inputs too. Shape: [batch, query, key],
    bool. Layers with the same mask carry the same object, so that what follows from it is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling. Shape: [batch, head, query, dimension]; None without the tap."""
    key: Tensor | None
    """Likewise, of all keys; grouped ones are repeated for each head. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without the tap."""
    logits: Tensor | None
    """What the softmax is of, mask included, finite throughout. Shape: that of `weights`; None without the tap."""
    value: Tensor | None = None
    """What the weights are of, of all keys; grouped values are repeated for each head.

    Shape: [batch, head, key, dimension]."""
    idle: Tensor | None = None
    """Which queries take nothing from any key, so that their rows are zero. Shape: [batch, head, query], bool; None
    if there are none, as there are none of weights."""
    queries: slice = field(default_factory=lambda: slice(None))
    """Which queries the rows of `weights`, `query`, `logits` and `idle` are of: all but in cross attention, where the
    target's tokens are counted behind the source's."""
    kind: AttentionKind = AttentionKind.ONLY
    """In cross attention keys are of another text than queries; else they are the same tokens."""
    keys: slice = field(default_factory=lambda: slice(None))
    """Which keys the columns of `weights` and `logits` are of: all but in cross attention."""
    length: int | None = None
    """How many tokens the inputs have, where the columns are not of all keys."""
    value_norms: Tensor | None = None
    """Of what heads carry, how long each key's vector is, ‖f(x_j)‖; None of weights. Shape: [batch, head, key]."""
    output: Tensor | None = None
    """What the weights make of the values, where it is known. Shape: [batch, head, query, dimension]."""
    shared: dict[str, Tensor] = field(default_factory=dict)
    """What is worked out once for all that is made of these inputs and heads."""

    @property
    def tokens(self) -> int:
        """How many tokens the inputs have; in cross attention both texts together."""
        return self.length or self.weights.shape[-1]

    @property
    def columns(self) -> slice:
        """The keys, from the first to behind the last."""
        start = self.keys.start or 0
        return slice(start, start + self.weights.shape[-1])

    @property
    def rows(self) -> slice:
        """The queries, from the first to behind the last."""
        start = self.queries.start or 0
        return slice(start, start + self.weights.shape[2])


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order."""
