"""A part of one layer's attention, as whoever reads a model hands it to a consumer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscan.results.grid import AttentionKind, Grid


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch and some heads, with whole rows.

    In cross attention keys are of another text than queries: the target's tokens are counted behind
    the source's.
    """

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    """Where the layer stands in the grid."""
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention; rows sum to 1, keys of padding have 0.
    Shape: [batch, head, query, key], float32."""
    visible: Tensor
    """Which keys each query of the batch, all inputs, may see. Shape: [batch, token, token], bool.
    The same object in layers with the same mask, so that what follows is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling; None if none is known.
    Shape: [batch, head, query, dimension]."""
    key: Tensor | None
    """Likewise, repeated for each head of a group. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without queries."""
    value: Tensor | None = None
    """What the weights average, repeated for each head of a group.
    Shape: [batch, head, key, dimension]."""
    weights_and_even: Tensor | None = None
    """Of what heads carry, `weights` and behind them, as if of as many heads more, what they would
    carry if they attended evenly: so both are measured at once. None of weights.
    Shape: [batch, twice the heads, query, key], float32."""
    output: Tensor | None = None
    """Weights times values, where they are known. Shape: [batch, head, query, dimension]."""

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
    def seen(self) -> Tensor:
        """Which keys its inputs' queries may see. Shape: [batch, 1, query, key], bool."""
        return self.visible[self.inputs, None, self.rows, self.columns]

    @property
    def tokens(self) -> int:
        """How many tokens the inputs have; in cross attention both texts together."""
        return int(max(self.rows.stop, self.columns.stop))


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order."""


def seen_keys(visible: Tensor, ranges: Sequence[slice]) -> list[slice]:
    """From the first to the last key that any query of a range sees, for each of some ranges.

    All keys for a range that sees none. What is beyond has no weight: layers of a sliding window
    see few keys of a long input, and causal ones half of them.
    Shape: `visible` [input, query, key], bool.
    """
    keys = visible.shape[2]
    is_seen = torch.stack([visible[:, queries].any(1).any(0) for queries in ranges])
    places = torch.arange(keys, device=visible.device)
    first = torch.where(is_seen, places, keys).amin(1)
    last = torch.where(is_seen, places, -1).amax(1)
    ends = torch.stack([first, last + 1], 1).tolist()  # the host waits once
    return [slice(start, stop) if start < stop else slice(0, keys) for start, stop in ends]


def expand_to_both_texts(visible: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Which tokens see which, where a target's tokens are counted behind its source's.

    `sizes` are how many tokens each target and its source have.
    Shape: `visible` [batch, target token, source token], bool -> [batch, token, token].
    """
    width = max(target + source for target, source in sizes)
    expanded = visible.new_zeros(len(sizes), width, width)
    for number, (target, source) in enumerate(sizes):
        rows = slice(source, source + target)
        expanded[number, rows, :source] = visible[number, :target, :source]
    return expanded


def visible_keys(weights: Tensor, present: Tensor) -> Tensor:
    """Which keys each query may see, judged by saved weights, with which there is no mask to read.

    Hidden are padding, and keys at a distance that no head of the layer ever attends to.
    Shape: `weights` [batch, head, query, key], `present` [batch, key] -> [batch, query, key], bool.
    """
    batch, _, queries, keys = weights.shape
    device = weights.device
    is_present = present.bool()
    distance = torch.arange(queries, device=device)[:, None] - torch.arange(keys, device=device)
    distance += keys  # so that none is negative
    # A query of padding spreads evenly over all
    is_used = (weights != 0).any(1) & is_present[:, :, None]
    used_distances = torch.zeros(queries + keys, dtype=torch.bool, device=device)
    used_distances[distance.expand(batch, -1, -1)[is_used]] = True
    return used_distances[distance].expand(batch, -1, -1) & is_present[:, None, :]
