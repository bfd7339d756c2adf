"""Sums of blocks of pairs, for whatever draws pairs again or leaves some out: resamples, and the jackknife.

Up to `most` blocks every pair is a block of its own; of more pairs, those whose hashes begin alike are added up, by as
many bits as leave no more blocks. Which pairs are together follows from the pairs alone, so that shards, order and
resumption change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnscan.results.scores import FloatArray

BITS = 64
"""Of a pair's hash."""
MOST, FEWEST = 512, 32
"""Blocks that are kept of a model of usual size, and of one of thousands of heads."""
ROOM = 1 << 23
"""Numbers that all blocks may hold together: 64 MB."""
Block = Mapping[str, FloatArray]


@dataclass(frozen=True)
class BlockSums:
    """Sums over pairs, block by block. They add."""

    blocks: Mapping[int, Block]
    """Each block's sums, by name, under the first `bits` of its pairs' hashes.

    Shape: of one name alike, or 1 along an axis where that block's are all equal.
    """
    most: int
    """How many blocks are kept."""
    bits: int = BITS
    """How much of a pair's hash its block's key is."""

    @classmethod
    def of(cls, keys: Sequence[int], sums: Mapping[str, FloatArray], most: int) -> BlockSums:
        """Of some pairs, by each pair's hash. Shape: `sums` [pair, ...] each."""
        alone = ({key: {name: values[i] for name, values in sums.items()}} for i, key in enumerate(keys))
        blocks: dict[int, Block] = {}
        for block in alone:
            blocks = _added(blocks, block)
        return cls(blocks, most).limited()

    def __add__(self, other: BlockSums) -> BlockSums:
        bits = min(self.bits, other.bits)
        ours, theirs = (_shorter(sums.blocks, sums.bits - bits) for sums in (self, other))
        return BlockSums(_added(ours, theirs), self.most, bits).limited()

    def limited(self) -> BlockSums:
        """These with no more than `most` blocks."""
        blocks, bits = self.blocks, self.bits
        while len(blocks) > self.most:
            blocks, bits = _shorter(blocks, 1), bits - 1
        return self if bits == self.bits else replace(self, blocks=blocks, bits=bits)

    def stacked(self) -> dict[str, FloatArray]:
        """All blocks, in the order of their keys. Shape: by name, [block, ...]."""
        in_order = [self.blocks[key] for key in sorted(self.blocks)]
        names = in_order[0] if in_order else ()
        return {name: np.stack(np.broadcast_arrays(*(block[name] for block in in_order))) for name in names}

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raises: ValueError if blocks are not of these shapes, or of keys that cannot be, as from a damaged file."""
        for key, block in self.blocks.items():
            if not 0 <= key < 1 << self.bits or not 0 <= self.bits <= BITS or set(block) != set(shapes):
                raise ValueError("blocks of pairs of another kind")
            for name, values in block.items():
                if values.ndim != len(shapes[name]) or np.broadcast_shapes(values.shape, shapes[name]) != shapes[name]:
                    raise ValueError("blocks of pairs of another shape")

    def __getstate__(self) -> dict[str, Any]:
        """With one array for all blocks, where they are alike: thousands of small ones take long to unpickle."""
        keys, blocks = list(self.blocks), list(self.blocks.values())
        shapes = [{name: values.shape for name, values in block.items()} for block in blocks]
        if not keys or any(shape != shapes[0] for shape in shapes):
            return vars(self)
        packed = {name: np.stack([block[name] for block in blocks]) for name in shapes[0]}
        return {**vars(self), "blocks": (keys, packed)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(blocks := state["blocks"], tuple):
            keys, packed = blocks
            rows = zip(*packed.values(), strict=True)
            blocks = {key: dict(zip(packed, row, strict=True)) for key, row in zip(keys, rows, strict=True)}
        vars(self).update({**state, "blocks": blocks})


def most_blocks(numbers: int) -> int:
    """How many blocks of so many numbers are kept."""
    return max(FEWEST, min(MOST, ROOM // max(1, numbers)))


def squeezed(values: FloatArray) -> FloatArray:
    """Values with 1 in place of layers or heads that do not differ: how many words there are hangs on neither.

    Shape: [pair, layer, head, ...].
    """
    for axis in (2, 1):
        first = values.take([0], axis)
        if (values == first).all():
            values = first
    return values


def _added(ours: Mapping[int, Block], theirs: Mapping[int, Block]) -> dict[int, Block]:
    """The blocks of both, those of one key added up."""
    added = dict(ours)
    for key, block in theirs.items():
        before = added.get(key)
        added[key] = block if before is None else {name: before[name] + values for name, values in block.items()}
    return added


def _shorter(blocks: Mapping[int, Block], bits: int) -> Mapping[int, Block]:
    """The blocks by keys so many bits shorter."""
    if not bits:
        return blocks
    shorter: dict[int, Block] = {}
    for key in sorted(blocks):
        shorter = _added(shorter, {key >> bits: blocks[key]})
    return shorter
