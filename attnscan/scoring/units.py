"""A batch's attention by scored units: weights of tokens made weights of words, with what a mask leaves of the batch.

Attention to a word is the sum over its pieces, from it the mean. What follows from a mask alone is worked out once for
all layers that have it. Sums are made in float64: so those of an input do not depend on the inputs beside it.

By query, each query of a single input is measured as if it were an input: `input` below is then a query, and there is
one query of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.scores import FloatArray

T = TypeVar("T")
LEAST_LEFT = 1e-30
"""Of a word's weight on words: less is not renormalised, and its row stays zero."""
MOST_WORDS = 512
"""Blocks of one input's words: with a block each, what is kept of 8,192 words and 264 heads would take 3 GB."""


@dataclass(frozen=True)
class Part:
    """Some inputs of a batch under a mask."""

    batch: EncodedBatch
    """These inputs by units, with the block's units for queries and keys."""
    seen: Tensor
    """Which tokens each token may see. Shape: [batch, query token, key token], bool."""
    mask: Tensor
    """What `seen` is of; kept alive, so that its id stays its own."""
    by_query: bool
    pieces: tuple[Tensor, Tensor] | None = None
    """The unit of each token of a single input, of queries and of keys; None where every token is a unit."""
    kept: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: EncodedBatch, inputs: slice, block: AttentionBlock, *, by_query: bool) -> Part:
        """The inputs of a block of tokens or, where words have several tokens, one of them."""
        seen = block.visible[inputs, block.rows, block.columns]
        part = batch.of_range(inputs, block.rows, block.columns, seen)
        if batch.unit is None or not part.inputs[0].merges:
            return cls(part, seen, block.visible, by_query)
        unit = batch.unit[inputs.start]
        pieces = unit[block.rows] - (part.queries.start or 0), unit[block.columns] - (part.keys.start or 0)
        return cls(part, seen, block.visible, by_query, pieces)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` makes of these inputs, made once for all layers that have their mask."""
        if name not in self.kept:
            self.kept[name] = make()
        return cast(T, self.kept[name])

    def by_units(self, weights: Tensor) -> Tensor:
        """Shape: [batch, head, query token, key token] -> [batch, head, query, key]."""
        if self.pieces is None:
            return weights
        (batch, heads, tokens, _), (queries, keys) = weights.shape, self.pieces
        count = queries.bincount()
        to_units = weights.new_zeros(batch, heads, tokens, int(keys.max()) + 1).index_add_(3, keys, weights)
        from_units = weights.new_zeros(batch, heads, len(count), to_units.shape[3]).index_add_(2, queries, to_units)
        return from_units / count[:, None]

    def as_inputs(self, values: Tensor, query: int = 1) -> Tensor:
        """Values of queries, by query as if each were an input. Shape: [batch, query, ...]; `query` is its axis."""
        return values.transpose(0, query) if self.by_query else values

    def even(self) -> Tensor:
        """Even attention over the keys that may be seen. Shape: [input, 1, query, key], float32."""
        even = self.seen.float()
        return self.as_inputs(self.by_units((even / even.sum(-1, keepdim=True).clip(1))[:, None]), 2)


@dataclass(frozen=True)
class UnitBlock:
    """A block of attention by units: some inputs of the batch and some heads of a layer, with whole rows."""

    of_tokens: AttentionBlock
    part: Part
    inputs: slice
    """Those of the batch."""
    weights: Tensor
    """Shape: [input, head, query, key]."""
    logits: Tensor | None
    """What the softmax is of; None where it is not known, or units have several tokens."""
    idle: Tensor | None
    """Which queries take nothing from any key. Shape: [input, head, query], bool; None if there are none."""

    @classmethod
    def of(cls, block: AttentionBlock, part: Part, inputs: slice, row: slice) -> UnitBlock:
        """Those inputs of a block of tokens, which stand in its `row`.

        A word takes something if one of its pieces does.
        """
        weights = part.as_inputs(part.by_units(block.weights[row]), 2)
        logits = None if block.logits is None or part.pieces else part.as_inputs(block.logits[row], 2)
        return cls(block, part, inputs, weights, logits, None if block.idle is None else weights.sum(-1) == 0)

    @cached_property
    def takes(self) -> Tensor:
        """Which words take anything. Shape: [input, head, query], bool."""
        batch = self.part.batch
        words = self.part.as_inputs(batch.query_word[:, None, batch.queries], 2).expand(self.weights.shape[:3])
        return words if self.idle is None else words & ~self.idle

    @cached_property
    def even_carried(self) -> Tensor | None:
        """What heads would carry if they attended evenly, ‖f(x_j)‖ as a share of all keys that may be seen.

        A row that carries nothing is zero. Shape: [input, head, query, key], float32; None of weights.
        """
        block = self.of_tokens
        if block.value_norms is None:
            return None
        first = block.inputs.start or 0
        norms = block.value_norms[self.inputs.start - first : self.inputs.stop - first, :, None]
        even = self.part.seen[:, None] * norms
        even = self.part.by_units(even / even.sum(-1, keepdim=True).clip(LEAST_LEFT))
        even = self.part.as_inputs(even, 2)
        return even if self.idle is None else even * ~self.idle[..., None]


class Units:
    """A batch by its units."""

    def __init__(self, batch: EncodedBatch, *, by_query: bool = False) -> None:
        self.batch, self.by_query = batch, by_query
        self._last: tuple[AttentionBlock | None, list[UnitBlock]] = None, []
        self._parts: dict[tuple[int, ...], Part] = {}

    def blocks(self, block: AttentionBlock) -> Sequence[UnitBlock]:
        """What a block of tokens says of units; input by input, if words have several tokens.

        Worked out once for all that are shown the block one after the other.
        """
        if self._last[0] is not block:
            start, stop, _ = block.inputs.indices(len(self.batch))
            step = stop - start if self.batch.unit is None else 1
            made = []
            for first in range(start, stop, step):
                inputs, row = slice(first, first + step), slice(first - start, first - start + step)
                key = (first, step, *block.weights.shape[2:], id(block.visible))
                if key not in self._parts:
                    self._parts[key] = Part.of(self.batch, inputs, block, by_query=self.by_query)
                made.append(UnitBlock.of(block, self._parts[key], inputs, row))
            self._last = block, made
        return self._last[1]


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
                own.zero_().index_add_(0, self._into[block.part.batch.queries], values.to(own))

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
