"""A batch's attention by scored units: weights of tokens made weights of words, and what a mask leaves of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, Visible

T = TypeVar("T")
_ROOM = 1 << 27  # bytes that is kept of one mask's ranges: the windows of 8,192 tokens fit, the rest is made again
MOST_WORDS = 512
"""Blocks of one input's words: with a block each, what is kept of 8,192 words and 264 heads would take 3 GB."""


class Units:
    """A batch by its units: attention to a word is the sum over its pieces, from it the mean."""

    def __init__(self, batch: EncodedBatch) -> None:
        self.batch = batch
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._under: dict[int, tuple[Tensor, EncodedBatch]] = {}

    def blocks(self, block: AttentionBlock) -> Iterator[tuple[AttentionBlock, AttentionBlock]]:
        """A block of tokens, and what it says of units; input by input, if words have several tokens."""
        start, stop, _ = block.inputs.indices(len(self.batch))
        if self.batch.unit is None:
            yield block, replace(block, inputs=slice(start, stop))
            return
        for row, number in enumerate(range(start, stop)):  # words are of any number, whatever that of tokens
            yield block, self._of_units(block, row, number)

    def _of_units(self, block: AttentionBlock, row: int, number: int) -> AttentionBlock:
        """One input of a block, by its row there and its number in the batch, all by units; merged ones have no logits.

        A word takes something if one of its pieces does, and what it takes is a share of that.
        """
        weights = self.merged(block, number, tokens := block.weights[row, None])
        logits = None if block.logits is None or weights is not tokens else block.logits[row, None]
        idle = None
        if block.idle is not None:
            taken = weights.sum(-1, keepdim=True)
            idle = taken[..., 0] == 0
            weights, logits = weights / taken.where(taken > 0, 1.0), None
        queries = self.batch.units(number, block.queries)
        of_target = {"begins": queries.start, "length": queries.stop} if block.begins else {}  # all of its queries
        return replace(
            block,
            inputs=slice(number, number + 1),
            queries=queries,
            keys=self.batch.units(number, block.keys),
            weights=weights,
            logits=logits,
            idle=idle,
            **of_target,
        )

    def merged(self, block: AttentionBlock, number: int, weights: Tensor) -> Tensor:
        """Merge weights of one input of a block, by its number in the batch.

        Shape: [1, head, token, token] -> [1, head, unit, unit].
        """
        assert self.batch.unit is not None
        unit = self.batch.unit[number]
        if block.queries == block.keys == slice(None):
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

    def view(self, block: AttentionBlock, inputs: slice) -> tuple[EncodedBatch, slice]:
        """The batch under a block's mask, with the block's queries; and where the inputs stand in what that gives.

        Whole, it is made once for all blocks of a mask; of a range of queries, it is of these inputs alone.
        """
        visible = block.visible
        if isinstance(visible, Tensor) and block.is_whole:
            if id(visible) not in self._under:
                self._under[id(visible)] = visible, self.batch.under(visible[: len(self.batch)])
            return self._under[id(visible)][1], inputs
        return self.batch.of_range(inputs, block.rows, visible[inputs, block.rows, slice(None)]), slice(None)


class Layouts:
    """What follows from a mask for some inputs, queries and keys: kept for all layers that have it, if there is room.

    Of ranges of queries the first are kept, so that of the others one alone is there at a time.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[object, Visible, object]] = {}
        self._last: dict[str, tuple[object, Visible, object]] = {}
        self._taken: dict[int, int] = {}

    def of(self, what: str, block: AttentionBlock, make: Callable[[], T]) -> T:
        """What `make` makes of the block's place under its mask; `what` tells it from what others make."""
        places = ((place.start, place.stop) for place in (block.inputs, block.rows, block.columns))
        key = (what, *places, id(block.visible))
        known = self._kept[key] if key in self._kept else self._last.get(what)
        if known is not None and known[0] == key:
            return cast(T, known[2])
        made = make()
        taken = self._taken.get(id(block.visible), 0) + (0 if block.queries == slice(None) else _bytes(made))
        if taken <= _ROOM:
            self._taken[id(block.visible)] = taken
            self._kept[key] = key, block.visible, made  # with the mask, so that its id stays its own
        else:
            self._last[what] = key, block.visible, made
        return made


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


def _bytes(made: object) -> int:
    """How much room the tensors take of which something consists."""
    if isinstance(made, Tensor):
        return made.nbytes
    values = made.values() if isinstance(made, Mapping) else made if isinstance(made, list | tuple) else None
    return sum(map(_bytes, vars(made).values() if values is None and hasattr(made, "__dict__") else values or ()))


def exact(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
