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

    def __call__(self, number: int, weights: Tensor, queries: slice = slice(None)) -> Tensor:
        """Merge the weights of one input, by its number in the batch; nothing is done where every token is a word.

        Shape: [1, head, token, token] -> [1, head, unit, unit], of a range of queries that are tokens.
        """
        into, mean = self._of(number, weights.shape[-1])
        if len(mean) == len(into):
            return weights
        return mean[self._units(number, queries), queries].to(weights) @ weights @ into.to(weights)

    def _of(self, number: int, length: int) -> tuple[Tensor, Tensor]:
        """What sums the keys of an input's words [token, unit], and what takes their queries' mean [unit, token]."""
        if number not in self._made:
            unit = self._unit[number, :length]
            into = (unit[:, None] == torch.arange(int(unit.max()) + 1, device=unit.device)).float()  # [token, unit]
            self._made[number] = (into, (into / into.sum(0).clip(1)).T)
        return self._made[number]

    def _units(self, number: int, queries: slice) -> slice:
        """The units of a range of tokens, which must not end within one."""
        if queries == slice(None):
            return queries
        unit, (start, stop) = self._unit[number], (queries.start or 0, queries.stop)
        assert start == 0 or unit[start - 1] != unit[start]
        if stop is None or stop >= len(unit) or unit[stop] < 0:
            return slice(int(unit[start]), None)
        assert unit[stop - 1] != unit[stop]
        return slice(int(unit[start]), int(unit[stop]))

    def block(self, block: AttentionBlock, row: int, number: int) -> AttentionBlock:
        """One input of a block, by its row there and its number in the batch, all by units; merged ones have no logits.

        A word takes something if one of its pieces does, and what it takes is a share of that.
        """
        weights = self(number, tokens := block.weights[row, None], block.queries)
        logits = None if block.logits is None or weights is not tokens else block.logits[row, None]
        idle = None
        if block.idle is not None:
            taken = weights.sum(-1, keepdim=True)
            idle = taken[..., 0] == 0
            weights, logits = weights / taken.where(taken > 0, 1.0), None
        return replace(
            block,
            inputs=slice(number, number + 1),
            queries=self._units(number, block.queries),
            weights=weights,
            logits=logits,
            idle=idle,
        )
