"""Weights of tokens made weights of words."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock


class Merge:
    """Merges the pieces of words: attention to a word is the sum over its pieces, from it the mean."""

    def __init__(self, unit: Tensor) -> None:
        self._unit = unit
        self._made: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, number: int, weights: Tensor, logits: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Merge the weights of one input, by its number in the batch; nothing is done where every token is a word.

        Shape: [1, head, token, token] -> [1, head, unit, unit], and the logits, which no merged weights have.
        """
        if number not in self._made:
            unit = self._unit[number, : weights.shape[-1]]
            into = (unit[:, None] == torch.arange(int(unit.max()) + 1, device=unit.device)).float()  # [token, unit]
            self._made[number] = (into, (into / into.sum(0).clip(1)).T)
        into, mean = self._made[number]
        if len(mean) == len(into):
            return weights, logits
        return mean @ weights @ into, None

    def block(self, block: AttentionBlock, row: int, number: int) -> AttentionBlock:
        """One input of a block, by its row there and its number in the batch, with weights, logits and `idle` by units.

        A word takes something if one of its pieces does, and what it takes is a share of that.
        """
        weights, logits = self(
            number, block.weights[row, None], None if block.logits is None else block.logits[row, None]
        )
        idle = None
        if block.idle is not None:
            taken = weights.sum(-1, keepdim=True)
            idle = taken[..., 0] == 0
            weights, logits = weights / taken.where(taken > 0, 1.0), None
        return replace(block, inputs=slice(number, number + 1), weights=weights, logits=logits, idle=idle)
