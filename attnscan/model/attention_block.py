"""What a tap shows: blocks of a layer's attention, whoever reads them and from wherever. Needs torch alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attnscan.results.grid import AttentionKind, Grid


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch, some heads, a range of queries, all keys."""

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0. On a CPU
    and without the tap, padding at the inputs' end is left out: they are all of one length."""
    visible: Tensor
    """Which keys each query of the batch may see, those of other inputs and ranges too. Shape: [batch, query, key],
    bool. Layers with the same mask carry the same object, so that what follows from it is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling. Shape: [batch, head, query, dimension]; None without the tap."""
    key: Tensor | None
    """Likewise; grouped keys are repeated for each head. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without the tap."""
    logits: Tensor | None
    """What the softmax is of, mask included, finite throughout. Shape: that of `weights`; None without the tap."""
    value: Tensor | None = None
    """What the weights are of; grouped values are repeated for each head. Shape: [batch, head, key, dimension]."""
    idle: Tensor | None = None
    """Which queries take nothing from any key, so that their rows are zero. Shape: [batch, head, query], bool; None
    if there are none, as there are none of weights."""
    queries: slice = field(default_factory=lambda: slice(None))
    """Which queries the rows of `weights`, `query`, `logits` and `idle` are of. A range cuts no word into two."""
    kind: AttentionKind = AttentionKind.ONLY
    """In cross attention keys are of another text than queries; else they are the same tokens."""

    @property
    def is_first(self) -> bool:
        """Whether the range of queries is the first of these inputs and heads."""
        return not self.queries.start

    @property
    def is_last(self) -> bool:
        """Whether no range of queries comes after it; not known of cross attention."""
        assert self.kind is not AttentionKind.CROSS
        return self.queries.stop is None or self.queries.stop >= self.weights.shape[-1]

    @property
    def is_whole(self) -> bool:
        """Whether it has the rows of all queries."""
        return self.is_first and self.is_last

    @property
    def rows(self) -> slice:
        """The range of queries, from its first to behind its last."""
        start = self.queries.start or 0
        return slice(start, start + self.weights.shape[2])


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order, and of a layer's inputs and heads, ranges of queries. If a model
turns out not to call the tap in every layer, all blocks come once more from layer 0 on: so the first range of queries
takes the place of what a consumer has of these inputs and heads, and later ranges are added to it."""


class Ranges:
    """Joins the ranges of queries of some inputs and heads, for consumers that need all of their rows at once."""

    def __init__(self) -> None:
        self._met: list[AttentionBlock] = []

    def joined(self, block: AttentionBlock) -> AttentionBlock | None:
        """The weights of all queries, once the last range has come; None before that."""
        if block.is_whole:
            return block
        self._met = [block] if block.is_first else [*self._met, block]
        if not block.is_last:
            return None
        weights, met = torch.cat([ranged.weights for ranged in self._met], 2), self._met
        self._met = []
        idle = None if block.idle is None else torch.cat([ranged.idle for ranged in met if ranged.idle is not None], 2)
        return replace(block, weights=weights, idle=idle, query=None, logits=None, queries=slice(None))


def add_range(total: Tensor, place: tuple[slice | int, ...], values: Tensor, block: AttentionBlock) -> None:
    """Add what a block says of its inputs and heads to the sums over their queries, which the first range begins."""
    if block.is_first:
        total[place] = values
    else:
        total[place] += values
