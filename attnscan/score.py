"""Weights x targets: a consumer of attention that measures every head of a batch against its targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attnscan.batch import EncodedBatch
from attnscan.capture import AttentionBlock
from attnscan.errors import CaptureError
from attnscan.results import FloatArray
from attnscan.sums import ScoreSums, Sums

_LEAST_LEFT = 1e-6  # a query with less weight than this on words does nothing but park


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


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, batch: EncodedBatch, targets: Sequence[Target]) -> None:
        self._targets = targets
        self._words = batch.word.float()
        words_only = [Target(t.id, t.matrix * self._words[:, None, :], even=t.even, part_of=t.part_of) for t in targets]
        self._every_key, self._words_only = _Measure(targets), _Measure(words_only)
        self._merge = None if batch.unit is None else _Merge(batch.unit, batch.word.shape[1])
        self._chance: tuple[Tensor, Tensor, Tensor] | None = None
        self._grid = (0, 0)

    def _start(self, grid: tuple[int, int]) -> None:
        """Make room for every layer and head."""
        self._grid = grid
        shape = (len(self._words), *grid)
        self._entropy = self._words.new_full(shape, torch.nan)
        self._kept = {
            f"{kind}.{name}": self._words.new_zeros(*shape, len(self._targets))
            for kind in ("every_key", "words_only")
            for name in ("weight", "whole", "n", "chance")
        }

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        inputs, weights = block.inputs, block.weights
        if block.grid != self._grid:
            self._start(block.grid)
        if self._merge is not None:
            weights = self._merge(weights, inputs)
        chance, chance_words = self._chances(block.visible)
        place = (inputs, block.layer, block.heads)

        # sums over eligible queries, first with every key ...
        eligible = self._every_key.eligible[inputs]
        n = eligible.sum(1, keepdim=True)
        self._keep("every_key", place, *self._every_key(weights, inputs), n, chance[inputs].sum(1, keepdim=True))
        entropy = torch.special.entr(weights).sum(-1) * self._words[inputs, None]
        self._entropy[place] = entropy.sum(-1)

        # ... then over words alone, each row renormalised
        on_words = weights * self._words[inputs, None, None]
        left = on_words.sum(-1)
        counts = (left >= _LEAST_LEFT).float()
        on_words *= (counts / left.clip(_LEAST_LEFT))[..., None]
        n = counts @ self._words_only.eligible[inputs]
        self._keep("words_only", place, *self._words_only(on_words, inputs), n, counts @ chance_words[inputs])

    def _keep(self, kind: str, place: tuple[slice, int, slice], *values: Tensor) -> None:
        for name, value in zip(("weight", "whole", "n", "chance"), values, strict=True):
            self._kept[f"{kind}.{name}"][place] = value

    def _chances(self, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Each eligible query's weight on target by chance, over every key and over words.

        Shape: [batch, query, key] -> two of [batch, query, pattern].
        """
        if self._chance is None or self._chance[0] is not visible:
            even = visible / visible.sum(-1, keepdim=True).clip(1)
            if self._merge is not None:
                even = self._merge(even[:, None], slice(None))[:, 0]
            on_words = even * self._words[:, None]
            on_words = on_words / on_words.sum(-1, keepdim=True).clip(_LEAST_LEFT)
            self._chance = (visible, self._every_key.by_query(even), self._words_only.by_query(on_words))
        return self._chance[1:]

    def sums(self) -> ScoreSums:
        """The batch's sums, once every block has come.

        Raises: CaptureError if the model's attention is not finite.
        """
        pairs = self.pair_sums()
        every_key, words_only = (
            Sums.of(*(pairs[f"{kind}.{name}"] for name in ("weight", "n", "chance", "whole")))
            for kind in ("every_key", "words_only")
        )
        entropy = self._entropy.cpu().numpy().astype(np.float64)
        if not np.isfinite(entropy).all():
            layer = int(np.argwhere(~np.isfinite(entropy))[:, 1].min())
            raise CaptureError(
                f"the attention weights are not finite from layer {layer} on",
                "the checkpoint's weights hold NaN or infinity, or --dtype float16 overflows: try float32",
            )
        return ScoreSums(
            patterns=tuple(target.id for target in self._targets),
            part_of=tuple(target.part_of for target in self._targets),
            every_key=every_key,
            words_only=words_only,
            entropy=entropy.sum(0),
            words=float(self._words.sum()),
        )

    def pair_sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums: `weight`, `whole`, `n` and `chance`, as `every_key.weight` and `words_only.weight`.

        Shape: each [pair, layer, head, pattern].
        """
        return {name: values.cpu().numpy().astype(np.float64) for name, values in self._kept.items()}


class _Measure:
    """Targets over a given set of keys, laid out so that one matrix product measures a block."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self.eligible = torch.stack([target.matrix.any(-1) for target in targets], -1).float()
        """Shape: [batch, query, pattern]."""
        by_id = {target.id: target.matrix for target in targets}
        self._parts = {p: by_id[t.part_of] for p, t in enumerate(targets) if t.part_of in by_id}
        wholes = [whole * self.eligible[..., p, None] for p, whole in self._parts.items()]
        self._matrix = torch.stack([*(target.matrix for target in targets), *wholes], -1).flatten(1, 2)
        """Shape: [batch, query x key, pattern, and behind those the wholes of the parts among them]."""

    def __call__(self, weights: Tensor, inputs: slice) -> tuple[Tensor, Tensor]:
        """Weight on target, and on the whole that the target is a part of, summed over queries.

        Shape: [batch, head, query, key] -> two of [batch, head, pattern].
        """
        both = torch.bmm(weights.flatten(2), self._matrix[inputs])
        on_target = both[..., : len(self._targets)]
        for p, target in enumerate(self._targets):
            if target.even:
                on_target[..., p] = torch.minimum(weights, target.matrix[inputs, None]).sum((-1, -2))
        on_whole = on_target.clone()
        if self._parts:
            on_whole[..., list(self._parts)] = both[..., len(self._targets) :]
        return on_target, on_whole

    def by_query(self, weights: Tensor) -> Tensor:
        """Weight on target of each eligible query. Shape: [batch, query, key] -> [batch, query, pattern]."""
        measured = [
            (torch.minimum(weights, target.matrix) if target.even else weights * target.matrix).sum(-1)
            for target in self._targets
        ]
        return torch.stack(measured, -1)


class _Merge:
    """Merges the pieces of words: attention to a word is the sum over its pieces, from it the mean."""

    def __init__(self, unit: Tensor, units: int) -> None:
        numbers = torch.arange(units, device=unit.device)
        self._sum = (unit[..., None] == numbers).float()  # [batch, token, unit]
        self._mean = (self._sum / self._sum.sum(1, keepdim=True).clip(1)).transpose(1, 2)

    def __call__(self, weights: Tensor, inputs: slice) -> Tensor:
        """Shape: [batch, head, token, token] -> [batch, head, unit, unit]."""
        return self._mean[inputs, None] @ weights @ self._sum[inputs, None]
