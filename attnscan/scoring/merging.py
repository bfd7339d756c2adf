"""A batch's attention by scored units: weights of tokens made weights of words, and what a mask leaves of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.grid import AttentionKind

T = TypeVar("T")
LEAST_LEFT = 1e-30
"""Of a word's weight on words: less is not renormalised, and its row stays zero."""
MOST_WORDS = 512
"""Blocks of one input's words: with a block each, what is kept of 8,192 words and 264 heads would take 3 GB."""


@dataclass(frozen=True)
class View:
    """A batch as a block of units sees it, under the block's mask."""

    batch: EncodedBatch
    own: tuple[slice, slice, slice]
    """Where the block's inputs, queries and keys stand in what the batch gives."""


class Units:
    """A batch by its units: attention to a word is the sum over its pieces, from it the mean."""

    def __init__(self, batch: EncodedBatch) -> None:
        self.batch, self.layouts = batch, Layouts()
        self._last: tuple[AttentionBlock | None, list[tuple[AttentionBlock, AttentionBlock]]] = None, []
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._under: dict[int, tuple[Tensor, EncodedBatch]] = {}

    def blocks(self, block: AttentionBlock) -> Sequence[tuple[AttentionBlock, AttentionBlock]]:
        """A block of tokens, and what it says of units; input by input, if words have several tokens.

        Worked out once for all that are shown the block one after the other.
        """
        if self._last[0] is not block:
            start, stop, _ = block.inputs.indices(len(self.batch))
            if self.batch.unit is None:
                made = [(block, replace(block, inputs=slice(start, stop)))]
            else:  # input by input: words are of any number, whatever that of tokens
                rows = enumerate(range(start, stop))
                made = [(block, self._of_units(block, row, number)) for row, number in rows]
            self._last = block, made
        return self._last[1]

    def _of_units(self, block: AttentionBlock, row: int, number: int) -> AttentionBlock:
        """One input of a block, by its row there and its number in the batch, all by units; merged ones have no logits.

        A word takes something if one of its pieces does, and what it takes is a share of that.
        """
        tokens = block.weights[row, None]
        weights = self.merged(block, number, tokens)
        logits = None if block.logits is None or weights is not tokens else block.logits[row, None]
        idle = None
        if block.idle is not None:
            taken = weights.sum(-1, keepdim=True)
            idle = taken[..., 0] == 0
            weights, logits = weights / taken.where(taken > 0, 1.0), None
        return replace(block, inputs=slice(number, number + 1), weights=weights, logits=logits, idle=idle)

    def merged(self, block: AttentionBlock, number: int, weights: Tensor) -> Tensor:
        """Merge weights of one input of a block, by its number in the batch.

        Shape: [1, head, token, token] -> [1, head, unit, unit].
        """
        assert self.batch.unit is not None
        unit = self.batch.unit[number]
        if block.kind is not AttentionKind.CROSS:
            into, mean = self._of(number, weights.shape[-1])
            if len(mean) == len(into):
                return weights
            return mean.to(weights) @ weights @ into.to(weights)
        of_keys, of_queries = unit[block.columns], unit[block.rows]
        if not bool((of_keys.diff() == 0).any() or (of_queries.diff() == 0).any()):
            return weights
        to_words = _added(weights, 3, of_keys)
        count = torch.bincount(of_queries - of_queries[0])
        return _added(to_words, 2, of_queries) / count[:, None]

    def _of(self, number: int, length: int) -> tuple[Tensor, Tensor]:
        """What sums the keys of an input's words [token, unit], and what takes their queries' mean [unit, token]."""
        if number not in self._sums:
            assert self.batch.unit is not None
            unit = self.batch.unit[number, :length]
            into = (unit[:, None] == torch.arange(int(unit.max()) + 1, device=unit.device)).float()  # [token, unit]
            precise = into.to(exact(into.device))
            self._sums[number] = (into, (precise / precise.sum(0).clip(1)).T)
        return self._sums[number]

    def even(self, block: AttentionBlock, inputs: slice) -> Tensor:
        """Even attention over the keys that may be seen, by units. Shape: [batch, query, key], float32."""
        even = block.visible[inputs, block.rows, block.columns].float()
        even = even / even.sum(-1, keepdim=True).clip(1)
        return even if self.batch.unit is None else self.merged(block, inputs.start, even[:, None])[:, 0]

    def even_carried(self, of_tokens: AttentionBlock, block: AttentionBlock) -> Tensor:
        """What heads would carry if they attended evenly, ‖f(x_j)‖ as a share of all keys that may be seen, by units.

        A row that carries nothing is zero. Shape: [batch, head, query, key], float32.
        """
        assert of_tokens.value_norms is not None
        first = of_tokens.inputs.start or 0
        norms = of_tokens.value_norms[block.inputs.start - first : block.inputs.stop - first]
        even = of_tokens.visible[block.inputs, of_tokens.rows, of_tokens.columns][:, None] * norms[:, :, None]
        even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)
        if self.batch.unit is not None:
            even = self.merged(of_tokens, block.inputs.start, even)
        if block.idle is not None:  # pieces of a word that carry nothing count for nothing in it
            even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT) * ~block.idle[..., None]
        return even

    def view(self, of_tokens: AttentionBlock, block: AttentionBlock) -> View:
        """The batch as a block of units sees it, made from one of tokens; once for all blocks of a mask."""
        visible, inputs, columns = of_tokens.visible, block.inputs, block.columns
        if block.kind is not AttentionKind.CROSS:
            if id(visible) not in self._under:
                self._under[id(visible)] = visible, self.batch.under(visible[: len(self.batch)])
            return View(self._under[id(visible)][1], (inputs, slice(block.weights.shape[2]), columns))
        seen = visible[inputs, of_tokens.rows, of_tokens.columns]
        return View(self.batch.of_range(inputs, of_tokens.rows, of_tokens.columns, seen), (slice(None),) * 3)


class Layouts:
    """What follows from a mask for some inputs, kept for all layers that have it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[Tensor, object]] = {}

    def of(self, what: str, block: AttentionBlock, make: Callable[[], T]) -> T:
        """What `make` makes of the block's place under its mask; `what` tells it from what others make."""
        places = ((place.start, place.stop) for place in (block.inputs, block.rows, block.columns))
        key = (what, *places, id(block.visible))
        if key not in self._kept:
            self._kept[key] = block.visible, make()  # with the mask, so that its id stays its own
        return cast(T, self._kept[key][1])


def blocks_of_words(word: Tensor) -> Tensor:
    """The block of each query, from 1 on: a word each, or neighbours together if there are many words; 0 for others.

    Shape: `word` [query], bool -> [query].
    """
    rank, count = word.cumsum(0), int(word.sum())
    return ((rank - 1) * min(count, MOST_WORDS) // max(1, count) + 1) * word


def _added(weights: Tensor, axis: int, unit: Tensor) -> Tensor:
    """Add up what stands side by side and is of one unit, along an axis."""
    shape = list(weights.shape)
    shape[axis] = int(unit[-1] - unit[0]) + 1
    return weights.new_zeros(shape).index_add_(axis, unit - unit[0], weights)


def exact(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
