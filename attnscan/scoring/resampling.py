"""Sums by blocks of pairs, and bootstrap resamples of these. Numpy.

Up to `most` pairs, every pair is a block of its own; of more pairs, those whose keys begin alike are added up, by as
many bits as leave no more blocks. Which pairs are together follows from the pairs alone, so that shards, order and
resumption change nothing.

A label of one input rests on a handful of words, one of a corpus on its pairs. Drawing as many of them with
replacement, again and again, shows how much of it is theirs: the bootstrap, with the word or the pair for its unit. Of
one input it cannot tell what another would say.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from attnscan.results.behaviour import RESAMPLINGS
from attnscan.results.scores import FloatArray
from attnscan.scoring.sums import added

BITS = 64
"""Of a pair's key, by which it is told from all others."""
MOST_BLOCKS, FEWEST_BLOCKS = 256, 32
"""Blocks that are kept of a model of usual size, and of one of thousands of heads."""
ROOM = 1 << 23
"""Numbers that all blocks may hold together: 64 MB."""
Block = Mapping[str, FloatArray]

AT_ONCE = 50
"""Resamples that are worked on together: of 384 heads and 7 patterns, their sums take 1 MB a quantity."""


@dataclass(frozen=True)
class BlockSums:
    """Sums over pairs, block by block. They add."""

    blocks: Mapping[int, Block]
    """Each block's sums, by name, under the first `bits` of its pairs' keys.

    Shape: of one name alike, or 1 along an axis where that block's are all equal.
    """
    most: int = MOST_BLOCKS
    """How many blocks are kept."""
    bits: int = BITS
    """How much of a pair's key its block's number is."""

    @classmethod
    def of(cls, keys: Sequence[str], sums: Mapping[str, FloatArray], most: int = MOST_BLOCKS) -> BlockSums:
        """The sums of some pairs, by the `Pair.key` of each. Shape: `sums` [pair, ...] each."""
        blocks: dict[int, Block] = {}
        for place, key in enumerate(keys):
            number = int(key[: BITS // 4], 16)
            blocks[number] = added(blocks.get(number), {name: values[place] for name, values in sums.items()})
        return cls(blocks, most).limited()

    def __add__(self, other: BlockSums) -> BlockSums:
        bits = min(self.bits, other.bits)
        ours, theirs = (_shorter(sums.blocks, sums.bits - bits) for sums in (self, other))
        return BlockSums(added(ours, theirs), min(self.most, other.most), bits).limited()

    def limited(self, most: int | None = None) -> Self:
        """These with no more blocks than are kept, or than `most`."""
        blocks, bits = self.blocks, self.bits
        while len(blocks) > (most or self.most):
            blocks, bits = _shorter(blocks, 1), bits - 1
        return self if bits == self.bits else replace(self, blocks=blocks, bits=bits)

    def stacked(self) -> dict[str, FloatArray]:
        """All blocks, in the order of their numbers. Shape: by name, [block, ...]."""
        in_order = [self.blocks[number] for number in sorted(self.blocks)]
        names = in_order[0] if in_order else ()
        return {name: np.stack(np.broadcast_arrays(*(block[name] for block in in_order))) for name in names}

    def packed(self) -> dict[str, Any]:
        """Everything in few arrays, by name: thousands of small ones take long to write and to read."""
        numbers = np.array(sorted(self.blocks), dtype=np.uint64)
        return {"numbers": numbers, "limits": np.array([self.most, self.bits]), **self.stacked()}

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> BlockSums:
        """These again from what `packed` gave."""
        rows = dict(packed)
        numbers, (most, bits) = rows.pop("numbers").tolist(), rows.pop("limits").tolist()
        blocks = {number: {name: values[at] for name, values in rows.items()} for at, number in enumerate(numbers)}
        return cls(blocks, most, bits)

    def __getstate__(self) -> dict[str, Any]:
        return self.packed()

    def __setstate__(self, packed: dict[str, Any]) -> None:
        vars(self).update(vars(BlockSums.unpacked(packed)))

    def checked(self, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        """These, if they are of such shapes. Raises: ValueError if not, as from a damaged file."""
        stacked = self.stacked()
        if not 0 <= self.bits <= BITS or any(number >> self.bits for number in self.blocks):
            raise ValueError("blocks of pairs of another kind")
        if self.blocks and set(stacked) != set(shapes):
            raise ValueError("blocks of pairs of other sums")
        for name, values in stacked.items():
            own, whole = values.shape[1:], shapes[name]
            if len(own) != len(whole) or np.broadcast_shapes(own, whole) != whole or not np.isfinite(values).all():
                raise ValueError("blocks of pairs of another shape")
        return self


def most_blocks(numbers: int) -> int:
    """How many blocks of so many numbers are kept."""
    return max(FEWEST_BLOCKS, min(MOST_BLOCKS, ROOM // max(1, numbers)))


def squeezed(values: FloatArray, axes: Sequence[int] = (2, 1)) -> FloatArray:
    """Values with 1 in place of layers or heads that do not differ: how many words there are depends on neither.

    Shape: [pair, layer, head, ...].
    """
    for axis in axes:
        first = values.take([0], axis)
        if (values == first).all():
            values = first
    return values


def _shorter(blocks: Mapping[int, Block], bits: int) -> Mapping[int, Block]:
    """The blocks by numbers so many bits shorter."""
    if not bits:
        return blocks
    shorter: dict[int, Block] = {}
    for number in sorted(blocks):
        shorter[number >> bits] = added(shorter.get(number >> bits), blocks[number])
    return shorter


def drawings(count: int, seed: int, at_once: int = AT_ONCE) -> Iterator[FloatArray]:
    """How often each unit is drawn in each of the resamples, some at a time. Shape: each [resample, unit]."""
    rng, even = np.random.default_rng(seed), np.full(count, 1 / count)
    for start in range(0, RESAMPLINGS, at_once):
        yield rng.multinomial(count, even, size=min(at_once, RESAMPLINGS - start)).astype(float)


def summed(drawn: FloatArray, values: FloatArray) -> FloatArray:
    """Sums over the units of each resample. Shape: [resample, unit] and [unit, ...] -> [resample, ...]."""
    flat: FloatArray = drawn @ values.reshape(len(values), -1)
    return flat.reshape(len(drawn), *values.shape[1:])
