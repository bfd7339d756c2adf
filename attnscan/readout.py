"""How targets are read off weights: the few cells that most targets have are picked out, not multiplied through.

A target of `next-word` has one cell a query, and one of `delimiter` two or three; only what is spread over much
of the matrix is worth a pass over it, and a pass costs as much as a layer's feed-forward does on a few tokens. So
each cell is picked once, for all targets, and once for both measures: over every key, and over words alone, where
it counts for more by what its row has left. Sums are made in float64: that costs nothing on so few cells, and makes
an input's sums independent of the inputs beside it.
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
    """Targets of some inputs of one length, ready to measure their weights: over every key, and over words alone.

    What is measured has a column for each target, and two for each that is a part of a wider one: the weight on that
    one's target, on queries that are eligible for the part over every key, and on those that are over words alone.
    """

    def __init__(self, targets: Sequence[Target], inputs: slice, length: int, words: Tensor) -> None:
        self._matrices = [target.matrix[inputs, :length, :length] for target in targets]
        self._words = words[inputs, None, None, :length]
        used = [matrix != 0 for matrix in self._matrices]
        on_words = [cells & (self._words[:, 0] > 0) for cells in used]
        self.eligible, self.eligible_on_words = (
            torch.stack([cells.any(-1) for cells in each], -1).to(exact(words.device)) for each in (used, on_words)
        )
        """Shape: [batch, query, pattern]."""
        self._even = {p: (m, m * on_words[p]) for p, m in enumerate(self._matrices) if targets[p].even}
        columns = [torch.zeros_like(m) if p in self._even else m for p, m in enumerate(self._matrices)]
        for eligible in (self.eligible, self.eligible_on_words):
            columns += [self._matrices[wider] * eligible[..., p, None].float() for p, wider in parts(targets)]
        self._lay_out(columns)

    def _lay_out(self, columns: list[Tensor]) -> None:
        """Find the cells of the sparse columns; of each input, a dense one is multiplied through."""
        length = columns[0].shape[-1]
        used = [column != 0 for column in columns]
        spread = [cells.count_nonzero((1, 2)) > _DENSE * length**2 for cells in used]
        self._dense = {c: columns[c] * spread[c][:, None, None] for c in range(len(columns)) if bool(spread[c].any())}
        sparse = [column.flatten(1) for column in columns]
        union = torch.zeros_like(used[0])
        for c in range(len(columns)):
            if c in self._dense:
                sparse[c] = sparse[c] * ~spread[c][:, None]
                used[c] = used[c] & ~spread[c][:, None, None]
            union |= used[c]
        cells = pad_sequence([row.nonzero()[:, 0] for row in union.flatten(1)], batch_first=True, padding_value=-1)
        self._cells = cells.clip(0)  # padding points to the first cell, and weighs nothing
        self._queries = self._cells // length
        values = torch.stack([column.gather(1, self._cells) for column in sparse], -1) * (cells >= 0)[..., None]
        self._values = values.to(self.eligible.dtype)
        """Shape: [batch, cell, column]."""
        self._on_words = self._words[:, 0].expand(-1, length, -1).flatten(1).gather(1, self._cells)[:, None]

    def left(self, weights: Tensor) -> Tensor:
        """The weight that each query has on words. Shape: [batch, head, query, key] -> [batch, head, query]."""
        return (weights * self._words).sum(-1)

    def __call__(self, weights: Tensor, share: Tensor) -> Tensor:
        """Weight on target, summed over queries.

        Shape: [batch, head, query, key], and what a query's weights are multiplied with over words alone
        [batch, head, query] -> [2, batch, head, column], over every key and over words alone.
        """
        measured = self._on_cells(weights, share)
        for c, column in self._dense.items():  # no matrix product: its rounding depends on how many inputs there are
            on_column = weights * column[:, None]
            measured[0, ..., c] += on_column.sum((-1, -2))
            measured[1, ..., c] += ((on_column * self._words).sum(-1) * share).sum(-1)
        for p, (target, on_words) in self._even.items():
            measured[0, ..., p] = torch.minimum(weights, target[:, None]).sum((-1, -2))
            shared = weights * share[..., None]
            measured[1, ..., p] = torch.minimum(shared, on_words[:, None], out=shared).sum((-1, -2))
        return measured

    def _on_cells(self, weights: Tensor, share: Tensor) -> Tensor:
        """The same for the sparse columns."""
        heads = weights.shape[1]
        cells, queries = (index[:, None].expand(-1, heads, -1) for index in (self._cells, self._queries))
        picked = weights.flatten(2).gather(2, cells)
        on_words = picked * share.gather(2, queries) * self._on_words
        both = torch.cat([picked, on_words], 1).to(self._values.dtype) @ self._values
        return both.view(len(both), 2, heads, -1).transpose(0, 1)

    def by_query(self, weights: Tensor) -> Tensor:
        """Weight on target of each eligible query. Shape: [batch, query, key] -> [batch, query, pattern]."""
        measured = [
            torch.minimum(weights, matrix) if p in self._even else weights * matrix
            for p, matrix in enumerate(self._matrices)
        ]
        return torch.stack([each.sum(-1, dtype=self.eligible.dtype) for each in measured], -1)


def parts(targets: Sequence[Target]) -> list[tuple[int, int]]:
    """The targets that are parts of others, each with the wider one, by their places."""
    places = {target.id: p for p, target in enumerate(targets)}
    return [(p, places[str(target.part_of)]) for p, target in enumerate(targets) if target.part_of in places]


def exact(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
