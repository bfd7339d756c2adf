"""What a tap shows: blocks of a layer's attention, whoever reads them and from wherever. Needs torch alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from attnscan.results.grid import Grid


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch, some heads, all queries and keys."""

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0. On a CPU
    and without the tap, padding at the inputs' end is left out: they are all of one length."""
    visible: Tensor
    """Which keys each query of these inputs may see. Shape: [batch, query, key], bool. Layers with the same mask
    carry the same object, so that what follows from it need be worked out only once."""
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


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order. If a model turns out not to call the tap in every layer, all
blocks come once more from layer 0 on, so a consumer must overwrite what it has of a block, not add to it."""
