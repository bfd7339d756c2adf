"""A batch's attention by scored units: weights of tokens made weights of words, with what a mask leaves of the batch.

Attention to a word is the sum over its pieces, from it the mean. What follows from a mask alone is worked out once for
all layers that have it. Sums are made in float64: so those of an input do not depend on the inputs beside it.
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
from attnscan.results.grid import Grid
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
    into: Tensor | None = None
    """What sums a single input's keys to words. Shape: [key token, key]; None where every token is a unit."""
    mean: Tensor | None = None
    """What takes the mean of its words' queries. Shape: [query, query token]."""
    kept: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: EncodedBatch, inputs: slice, block: AttentionBlock) -> Part:
        """The inputs of a block of tokens or, where words have several tokens, one of them."""
        rows, columns = block.rows, block.columns
        seen = block.visible[inputs, rows, columns]
        part = batch.of_range(inputs, rows, columns, seen)
        if batch.unit is None or len(part.inputs[0].units) == len(part.inputs[0].tokens):
            return cls(part, seen, block.visible)
        into, from_ = (
            (batch.unit[inputs.start, tokens, None] == torch.arange(units.start, units.stop, device=seen.device))
            for tokens, units in ((columns, part.keys), (rows, part.queries))
        )
        precise = from_.to(exact(seen.device))
        return cls(part, seen, block.visible, into.float(), (precise / precise.sum(0).clip(1)).T)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` makes of these inputs, made once for all layers that have their mask."""
        if name not in self.kept:
            self.kept[name] = make()
        return cast(T, self.kept[name])

    def by_units(self, weights: Tensor) -> Tensor:
        """Shape: [batch, head, query token, key token] -> [batch, head, query, key]."""
        if self.into is None or self.mean is None:
            return weights
        return self.mean.to(weights) @ weights @ self.into.to(weights)

    def even(self) -> Tensor:
        """Even attention over the keys that may be seen. Shape: [batch, query, key], float32."""
        even = self.seen.float()
        return self.by_units((even / even.sum(-1, keepdim=True).clip(1))[:, None])[:, 0]


@dataclass(frozen=True)
class UnitBlock:
    """A block of attention by units: some inputs of the batch and some heads of a layer, with whole rows."""

    of_tokens: AttentionBlock
    part: Part
    inputs: slice
    weights: Tensor
    """Shape: [batch, head, query, key]."""
    logits: Tensor | None
    """What the softmax is of; None where it is not known, or units have several tokens."""
    idle: Tensor | None
    """Which queries take nothing from any key. Shape: [batch, head, query], bool; None if there are none."""

    @classmethod
    def of(cls, block: AttentionBlock, part: Part, inputs: slice, row: slice) -> UnitBlock:
        """Those inputs of a block of tokens, which stand in its `row`.

        A word takes something if one of its pieces does, and what it takes is a share of that.
        """
        tokens = block.weights[row]
        weights, logits, idle = part.by_units(tokens), None if block.logits is None else block.logits[row], None
        if weights is not tokens:
            logits = None
        if block.idle is not None and part.batch.unit is None:
            idle = block.idle[row]
        elif block.idle is not None:
            taken = weights.sum(-1, keepdim=True)
            weights, logits, idle = weights / taken.where(taken > 0, 1.0), None, taken[..., 0] == 0
        return cls(block, part, inputs, weights, logits, idle)

    @property
    def place(self) -> tuple[slice, int, slice]:
        """Its inputs, layer and heads."""
        return self.inputs, self.of_tokens.layer, self.of_tokens.heads

    @cached_property
    def takes(self) -> Tensor:
        """Which words take anything. Shape: [batch, head, query], bool."""
        batch = self.part.batch
        words = batch.query_word[:, None, batch.queries].expand(self.weights.shape[:3])
        return words if self.idle is None else words & ~self.idle

    @cached_property
    def even_carried(self) -> Tensor | None:
        """What heads would carry if they attended evenly, ‖f(x_j)‖ as a share of all keys that may be seen.

        A row that carries nothing is zero. Shape: [batch, head, query, key], float32; None of weights.
        """
        block = self.of_tokens
        if block.value_norms is None:
            return None
        first = block.inputs.start or 0
        norms = block.value_norms[self.inputs.start - first : self.inputs.stop - first, :, None]
        even = self.part.seen[:, None] * norms
        even = self.part.by_units(even / even.sum(-1, keepdim=True).clip(LEAST_LEFT))
        if self.idle is not None:  # pieces of a word that carry nothing count for nothing in it
            even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT) * ~self.idle[..., None]
        return even


class Units:
    """A batch by its units."""

    def __init__(self, batch: EncodedBatch) -> None:
        self.batch = batch
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
                    self._parts[key] = Part.of(self.batch, inputs, block)
                made.append(UnitBlock.of(block, self._parts[key], inputs, row))
            self._last = block, made
        return self._last[1]


class SumsOfBatch:
    """Named sums of each pair of a batch or, `by_query`, of one input's words or blocks of neighbouring words."""

    def __init__(self, batch: EncodedBatch, *, by_query: bool) -> None:
        assert not by_query or len(batch) == 1
        self.by_query = by_query
        self._into = blocks_of_words(batch.query_word[0]) if by_query else None
        self._units = len(batch) if self._into is None else int(self._into.max()) + 1
        self._grid: Grid | None = None
        self._sums: dict[str, Tensor] = {}

    def put(self, block: UnitBlock, sums: Mapping[str, Tensor]) -> None:
        """Take sums of the block's inputs or, by query, of its queries; those of the same place before are replaced.

        Shape: each [input or query, head, column].
        """
        if block.of_tokens.grid != self._grid:
            self._grid, self._sums = block.of_tokens.grid, {}
        for name, values in sums.items():
            kind = exact(values.device)
            if name not in self._sums:
                shape = (self._units, *self._grid.shape, values.shape[-1])
                self._sums[name] = torch.zeros(shape, dtype=kind, device=values.device)
            if self._into is None:
                self._sums[name][block.place] = values.to(kind)
            else:
                own = self._sums[name][(slice(None), *block.place[1:])].zero_()
                own.index_add_(0, self._into[block.part.batch.queries], values.to(kind))

    def arrays(self) -> dict[str, FloatArray]:
        """All sums; by query, first those of all queries that are no words. Shape: each [unit, layer, head, column]."""
        return {name: v.cpu().numpy().astype(np.float64, copy=False) for name, v in self._sums.items()}


def input_by_input(values: Tensor, *, by_query: bool) -> Tensor:
    """Values of queries, `by_query` as if each were an input.

    Shape: [batch, head, query, ...] -> [input, head, query, ...].
    """
    return values.transpose(0, 2) if by_query else values


def blocks_of_words(word: Tensor) -> Tensor:
    """The block of each query, from 1 on: a word each, or neighbours together if there are many words; 0 for others.

    Shape: `word` [query], bool -> [query].
    """
    rank, count = word.cumsum(0), int(word.sum())
    return ((rank - 1) * min(count, MOST_WORDS) // max(1, count) + 1) * word


def exact(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
