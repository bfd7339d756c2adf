"""A batch's attention by scored units: weights of tokens made weights of words, with what a mask leaves of the batch.

Attention to a word is the sum over its pieces, from it the mean. Sums are made in float64: so those of an input do not
depend on the inputs beside it.

By query, each query of a single input is measured as if it were an input: `input` in shapes is then a query, and has
one query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.scores import FloatArray

T = TypeVar("T")
LEAST_LEFT = 1e-30  # of a word's weight on words: less is not renormalised, and its row stays zero
MOST_WORDS = 512
"""Blocks of one input's words: with a block each, what is kept of 8,192 words and 264 heads would take 3 GB."""


@dataclass(frozen=True)
class UnitBlock:
    """A block of attention by units: some inputs of the batch and some heads of a layer, with whole rows."""

    of_tokens: AttentionBlock  # these inputs' alone
    batch: EncodedBatch  # these inputs by units under the block's mask, with the block's units for queries and keys
    inputs: slice  # their places in the whole batch
    by_query: bool
    kept: dict[str, Any]  # what is the same for all layers that have the mask

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` makes of the mask and these inputs, made once for all layers that have it."""
        if name not in self.kept:
            self.kept[name] = make()
        made: T = self.kept[name]
        return made

    def as_inputs(self, values: Tensor, query: int = 1) -> Tensor:
        """Values of queries, by query as if each were an input. Shape: [batch, query, ...]; `query` is its axis."""
        return values.transpose(0, query) if self.by_query else values

    def by_units(self, weights: Tensor) -> Tensor:
        """Shape: [batch, head, query token, key token] -> [input, head, query, key]."""
        block, (first, *more) = self.of_tokens, self.batch.inputs
        if not more and len(first.units) < len(first.tokens):
            unit = torch.tensor(first.unit, device=weights.device)
            queries, keys = unit[block.rows] - (self.batch.queries.start or 0), unit[block.columns]
            count = queries.bincount()
            to_units = weights.new_zeros(*weights.shape[:3], int(keys.max()) + 1).index_add_(3, keys, weights)
            weights = to_units.new_zeros(*weights.shape[:2], len(count), to_units.shape[3])
            weights = weights.index_add_(2, queries, to_units) / count[:, None]
        return self.as_inputs(weights, 2)

    @cached_property
    def weights(self) -> Tensor:
        """Shape: [input, head, query, key]."""
        return self.by_units(self.of_tokens.weights)

    @cached_property
    def has_row(self) -> Tensor:
        """Which queries take anything from any key. Shape: [input, head, query], bool."""
        if self.of_tokens.value_norms is None:
            return torch.ones_like(self.weights[..., 0], dtype=torch.bool)
        return self.weights.sum(-1) > 0

    @cached_property
    def takes(self) -> Tensor:
        """Which of them are words. Shape: [input, head, query], bool."""
        return self.has_row & self.as_inputs(self.batch.query_word[:, None, self.batch.queries], 2)

    @property
    def even(self) -> Tensor:
        """Even attention over the keys that may be seen. Shape: [input, 1, query, key], float32."""
        return self.once("even", lambda: self.by_units(self._seen / self._seen.sum(-1, keepdim=True).clip(1)))

    @cached_property
    def even_carried(self) -> Tensor | None:
        """What heads would carry if they attended evenly, ‖f(x_j)‖ as a share of all keys that may be seen.

        A row that carries nothing is zero. Shape: [input, head, query, key], float32; None of weights.
        """
        if self.of_tokens.value_norms is None:
            return None
        even = self._seen * self.of_tokens.value_norms[:, :, None]
        return self.by_units(even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)) * self.has_row[..., None]

    @property
    def _seen(self) -> Tensor:
        """Which tokens may be seen, 0 or 1. Shape: [batch, 1, query token, key token]."""
        block = self.of_tokens
        return block.visible[self.inputs, None, block.rows, block.columns].float()


class Units:
    """A batch by its units."""

    def __init__(self, batch: EncodedBatch, *, by_query: bool = False) -> None:
        self.batch, self.by_query = batch, by_query
        self._last: tuple[AttentionBlock | None, list[UnitBlock]] = None, []
        self._parts: dict[tuple[int, ...], tuple[Tensor, EncodedBatch, dict[str, Any]]] = {}

    def blocks(self, block: AttentionBlock) -> Sequence[UnitBlock]:
        """What a block of tokens says of units; input by input, if words have several tokens.

        Worked out once for all that are shown the block one after the other.
        """
        if self._last[0] is not block:
            start, stop, _ = block.inputs.indices(len(self.batch))
            step = stop - start if self.batch.unit is None else 1
            self._last = block, [self._part(block, slice(i, i + step), i - start) for i in range(start, stop, step)]
        return self._last[1]

    def _part(self, block: AttentionBlock, inputs: slice, first: int) -> UnitBlock:
        """Those inputs of a block, from its `first` on."""
        key = (inputs.start, inputs.stop, *block.weights.shape[2:], id(block.visible))
        if key not in self._parts:
            seen = block.visible[inputs, block.rows, block.columns]
            of_units = self.batch.under(seen, inputs, block.rows, block.columns)
            self._parts[key] = block.visible, of_units, {}  # the mask is kept alive, so that its id stays its own
        _, of_units, kept = self._parts[key]
        rows = slice(first, first + inputs.stop - inputs.start)
        norms = None if block.value_norms is None else block.value_norms[rows]
        of_tokens = replace(block, weights=block.weights[rows], value_norms=norms)
        return UnitBlock(of_tokens, of_units, inputs, self.by_query, kept)


class SumsOfBatch:
    """Named sums of each input of a batch or, by query, of one input's words or blocks of neighbouring words."""

    def __init__(self, units: Units) -> None:
        self._into = blocks_of_words(units.batch.query_word[0]) if units.by_query else None
        self._count = len(units.batch) if self._into is None else int(self._into.max()) + 1
        self._sums: dict[str, Tensor] = {}

    def put(self, block: UnitBlock, sums: Mapping[str, Tensor]) -> None:
        """Take the sums of a block; those of the same place before are replaced. Shape: each [input, head, column]."""
        for name, values in sums.items():
            if name not in self._sums:
                shape = (self._count, *block.of_tokens.grid.shape, values.shape[-1])
                self._sums[name] = torch.zeros(shape, dtype=exact(values.device), device=values.device)
            own = self._sums[name][:, block.of_tokens.layer, block.of_tokens.heads]
            if self._into is None:
                own[block.inputs] = values.to(own)
            else:
                own.zero_().index_add_(0, self._into[block.batch.queries], values.to(own))

    def arrays(self) -> dict[str, FloatArray]:
        """All sums; by query, first those of all queries that are no words. Shape: each [unit, layer, head, column]."""
        return {name: v.cpu().numpy().astype(np.float64, copy=False) for name, v in self._sums.items()}


def blocks_of_words(word: Tensor) -> Tensor:
    """The block of each query, from 1 on: a word each, or neighbours together if there are many words; 0 for others.

    Shape: `word` [query], bool -> [query].
    """
    rank, count = word.cumsum(0), int(word.sum())
    return ((rank - 1) * min(count, MOST_WORDS) // max(1, count) + 1) * word


def exact(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
