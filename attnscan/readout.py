"""How targets are read off weights: the few cells that most targets have are picked out, not multiplied through.

A target of `next-word` has one cell a query, and one of `delimiter` two or three; only what is spread over much
of the matrix is worth a pass over all of it. Sums are made in float64: that costs nothing on so few cells, and
makes an input's sums independent of the inputs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

_DENSE = 1 / 8  # of a matrix's cells: a target with more is multiplied through


@dataclass(frozen=True)
class Target:
    """A pattern's target for one batch, and how to measure weights against it."""

    id: str
    matrix: Tensor
    """Shape: [batch, query, key], float in [0, 1]; a query with a zero row is not eligible."""
    even: bool = False
    """Score min(weight, target) instead of weight x target."""
    part_of: str | None = None
    """The id of the wider target that this is a part of."""

    def if_any(self, ids: Sequence[str]) -> Target:
        """The same if its id is among some; else one that no query is eligible for."""
        return self if self.id in ids else replace(self, matrix=torch.zeros_like(self.matrix))


class Readout:
    """Targets of some inputs of one length, over a given set of keys, ready to measure their weights."""

    def __init__(self, targets: Sequence[Target], inputs: slice, length: int, keys: Tensor) -> None:
        counted = keys[inputs, None, :length]
        matrices = [target.matrix[inputs, :length, :length] * counted for target in targets]
        self._count, self._length = len(targets), length
        self.eligible = torch.stack([matrix.any(-1) for matrix in matrices], -1).to(exact(keys.device))
        """Shape: [batch, query, pattern]."""
        self._even = {p: matrices[p] for p, target in enumerate(targets) if target.even}
        columns = [torch.zeros_like(m) if p in self._even else m for p, m in enumerate(matrices)]
        by_id = {target.id: matrix for target, matrix in zip(targets, matrices, strict=True)}
        self._parts = [p for p, target in enumerate(targets) if target.part_of in by_id]
        columns += [by_id[str(targets[p].part_of)] * self.eligible[..., p, None].float() for p in self._parts]
        every = torch.stack(columns, -1).flatten(1, 2)  # [batch, cell, column]
        spread = (every != 0).sum(1, keepdim=True) > _DENSE * length**2
        self._dense = {c: every[..., c] * spread[..., c] for c in range(len(columns)) if bool(spread[..., c].any())}
        sparse = every * ~spread
        self._cells = pad_sequence([row.any(-1).nonzero()[:, 0] for row in sparse], batch_first=True, padding_value=-1)
        kept = self._cells >= 0
        self._cells = self._cells.clip(0)  # padding points to the first cell, and weighs nothing
        values = sparse.gather(1, self._cells[..., None].expand(-1, -1, len(columns)))
        self._values = (values * kept[..., None]).to(self.eligible.dtype)

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Weight on target, and on the whole that the target is a part of, summed over queries.

        Shape: [batch, head, query, key] -> two of [batch, head, pattern].
        """
        flat = weights.flatten(2)
        picked = flat.gather(2, self._cells[:, None].expand(-1, weights.shape[1], -1))
        both = picked.to(self._values.dtype) @ self._values
        for c, cells in self._dense.items():  # no matrix product: its rounding depends on how many inputs there are
            both[..., c] += (flat * cells[:, None]).sum(-1)
        on_target = both[..., : self._count]
        for p, matrix in self._even.items():
            on_target[..., p] = torch.minimum(weights, matrix[:, None]).sum((-1, -2))
        on_whole = on_target.clone()
        if self._parts:
            on_whole[..., self._parts] = both[..., self._count :]
        return on_target, on_whole

    def by_query(self, weights: Tensor) -> Tensor:
        """Weight on target of each eligible query. Shape: [batch, query, key] -> [batch, query, pattern]."""
        flat = weights.flatten(1)
        each = flat.gather(1, self._cells)[..., None] * self._values[..., : self._count]
        measured = each.new_zeros(len(weights), self._length, self._count)
        query = (self._cells // self._length)[..., None].expand(-1, -1, self._count)
        measured.scatter_add_(1, query, each)
        for c, cells in self._dense.items():
            if c < self._count:
                measured[..., c] += (flat * cells).view_as(weights).sum(-1)
        for p, matrix in self._even.items():
            measured[..., p] = torch.minimum(weights, matrix).sum(-1)
        return measured


def exact(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
