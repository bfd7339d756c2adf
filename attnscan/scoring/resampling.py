"""Sums by blocks of pairs, for what is drawn again; how often a head keeps its label when pairs or words are. Numpy.

Up to `most` pairs, every pair is a block of its own; of more pairs, those whose keys begin alike are added up, by as
many bits as leave no more blocks. Which pairs are together follows from the pairs alone, so that shards, order and
resumption change nothing.

A label of one input rests on a handful of words, one of a corpus on its pairs. Drawing as many of them with
replacement, again and again, shows how much of it is theirs: the bootstrap, with the word or the pair for its unit. Of
one input it cannot tell what another would say.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from attnscan.results.behaviour import DRAWN_MAPS, FEWEST, MOST_HEADS, RESAMPLINGS, Agreement, Labels, Stability
from attnscan.results.scores import FloatArray, IntArray, Race, Scores, ScoreTable
from attnscan.results.terms import Scored
from attnscan.scoring.sums import KINDS, Adding, PairSums, added

BITS = 64
"""Of a pair's key, by which it is told from all others."""
MOST_BLOCKS, FEWEST_BLOCKS = 256, 32
"""Blocks that are kept of a model of usual size, and of one of thousands of heads."""
ROOM = 1 << 23
"""Numbers that all blocks may hold together: 64 MB."""
Block = Mapping[str, FloatArray]

_QUANTITIES = ("weight", "n", "chance", "whole", "itself")
"""What a label follows from, by the names of `Scorer.pair_sums`."""

_AT_ONCE = 50  # resamplings: of 384 heads and 7 patterns, their sums take 1 MB a quantity
_UNKNOWN = np.full((1, 1, 1, 1), np.nan)


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


def table_of(
    weight: FloatArray, n: FloatArray, chance: FloatArray, whole: FloatArray, itself: FloatArray
) -> ScoreTable:
    """Scores for labels alone: without errors, which no label looks at, and which take as long as all else."""
    unknown = np.full((1,) * weight.ndim, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ScoreTable(
            score=weight / n,
            chance=np.broadcast_to(chance / n, weight.shape),
            se=unknown,
            n=n.astype(np.int64),
            pairs=np.zeros_like(unknown, dtype=np.int64),
            effective_pairs=unknown,
            share=weight / whole,
            itself=itself / n,
        )


@dataclass(frozen=True)
class LabelSums(Adding):
    """Sums over pairs, by which labels are told to be sure or not."""

    scored: tuple[Scored, ...]
    blocks: BlockSums
    """Pairs' sums as `Scorer.pair_sums` names them, of the patterns whose labels need them; none of too many heads.

    Shape: each [layer, head, pattern], or 1 where all layers or heads have the same.
    """
    votes: IntArray
    """How many pairs say each label, `mixed` being the last. Shape: [kind, layer, head, pattern + 1]."""

    @classmethod
    def of(cls, pairs: PairSums, scored: tuple[Scored, ...], keys: Sequence[str], threshold: float) -> LabelSums:
        """Of some pairs, by the `Pair.key` of each; a label is `threshold` above chance."""
        votes = _votes_of(pairs, scored, threshold)
        if pairs["every_key.weight"][0, ..., 0].size > MOST_HEADS:
            return cls(scored, BlockSums({}), votes)
        needed = {name: squeezed(pairs[name][..., columns_of(name, scored)]) for name in _names()}
        return cls(scored, BlockSums.of(keys, needed, most_blocks(len(KINDS) * votes[0].size)), votes)

    def checked(self) -> Self:
        """These, if blocks are of the shapes that they must be. Raises: ValueError if not, as from a damaged file."""
        grid = self.votes.shape[1:-1]
        self.blocks.checked({name: (*grid, len(columns_of(name, self.scored))) for name in _names()})
        return self

    def units(self) -> PairSums:
        """The sums block by block; those that no label needs are zero.

        Shape: each [block, layer, head, pattern], or 1 in place of layer or head.
        """
        units: dict[str, FloatArray] = {}
        for name, values in self.blocks.stacked().items():
            units[name] = np.zeros((*values.shape[:-1], len(self.scored)))
            units[name][..., columns_of(name, self.scored)] = values
        return units

    def agreement(self, scores: Scores, threshold: float) -> Agreement:
        """The share of pairs that say of each head what all of them together say."""

        def share(kind: str, votes: IntArray) -> FloatArray:
            winners = Race(self.scored, table := getattr(scores, kind)).winners(0, threshold)[..., None]
            cast = votes.sum(-1, keepdims=True)
            asked = np.concatenate([table.pairs, cast], -1)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares: FloatArray = np.take_along_axis(votes, winners % votes.shape[-1], -1) / np.take_along_axis(
                    asked, winners % votes.shape[-1], -1
                )
            return shares[..., 0]

        return Agreement(*(share(kind, self.votes[k]) for k, kind in enumerate(KINDS)))


def _votes_of(pairs: PairSums, scored: Sequence[Scored], threshold: float) -> IntArray:
    """What label each pair by itself gives every head, counted. Shape: [kind, layer, head, pattern + 1]."""
    votes = []
    for kind in KINDS:
        table = table_of(*(pairs[f"{kind}.{name}"] for name in _QUANTITIES))
        winners = Race(scored, table).winners(0, threshold)
        places = [*range(len(scored)), -1]
        votes.append(np.stack([(winners == place).sum(0) for place in places], -1))
    return np.stack(votes)


def _names() -> list[str]:
    return [f"{kind}.{name}" for kind in KINDS for name in _QUANTITIES]


def columns_of(name: str, scored: Sequence[Scored]) -> list[int]:
    """The patterns whose labels need a quantity: few ask what a part has of its whole, or a word's weight on itself."""
    quantity = name.partition(".")[2]
    if quantity == "whole":
        return [p for p, pattern in enumerate(scored) if pattern.part_of is not None]
    return [p for p, pattern in enumerate(scored) if quantity != "itself" or pattern.of_others]


def labels_of(scores: Scores, sums: LabelSums, threshold: float, seed: int, *, norm: bool) -> Labels:
    """What heads are called by scores over many pairs, and how sure that is."""
    sure = stability(scores, sums.units(), threshold, seed)
    return Labels(scores, norm, threshold, sure, sums.agreement(scores, threshold))


def stability(scores: Scores, units: PairSums, threshold: float, seed: int) -> Stability | None:
    """In what share of resamplings each head keeps its label, and its label on words; None of more than `MOST_HEADS`.

    Shape: `units` as of `Scorer.pair_sums`, each the sums of what is drawn: of an input's words, or of pairs.
    """
    if scores.entropy.size > MOST_HEADS:
        return None
    (label, drawn), (content_label, content_drawn) = (_stays(scores, kind, units, threshold, seed) for kind in KINDS)
    return Stability(label, content_label, {"in": drawn, "out": content_drawn})


def _stays(scores: Scores, kind: str, units: PairSums, threshold: float, seed: int) -> tuple[FloatArray, IntArray]:
    """By one kind of score: the share of resamples, NaN where a label rests on too few units, and the first labels.

    Shape: [layer, head] and [`DRAWN_MAPS`, layer, head].
    """
    count = len(units["every_key.n"])
    if count < FEWEST:  # too few for any label, and of tens of thousands of heads the drawings take minutes
        return np.full(scores.grid.shape, np.nan), np.zeros((0, *scores.grid.shape), dtype=np.int64)
    table: ScoreTable = getattr(scores, kind)
    winners, kept = Race(scores.scored, table).winners(0, threshold), np.zeros(scores.grid.shape)
    first: list[IntArray] = []
    laid_out = _laid_out(units, kind, scores.scored, scores.grid.shape)
    for drawn in _drawings(count, seed):
        again = Race(scores.scored, _table(laid_out, scores.scored, drawn)).winners(0, threshold)
        first.extend(again[: DRAWN_MAPS - len(first)])
        kept += (again == winners).sum(0)
    # a label rests on the units that are eligible for its pattern; `mixed`, the last of these, on all of them
    eligible = np.broadcast_to((units[f"{kind}.n"] > 0).sum(0), table.score.shape)
    rests_on = np.concatenate([eligible, np.full((*scores.grid.shape, 1), count)], -1)
    too_few = np.take_along_axis(rests_on, winners[..., None] % rests_on.shape[-1], -1)[..., 0] < FEWEST
    return np.where(too_few, np.nan, kept / RESAMPLINGS), np.stack(first)


@lru_cache(maxsize=1)
def _drawings(count: int, seed: int) -> tuple[FloatArray, ...]:
    """How often each unit is drawn, some resamplings at a time. Shape: each [drawing, unit]."""
    rng, even = np.random.default_rng(seed), np.full(count, 1 / count)
    return tuple(rng.multinomial(count, even, size=_AT_ONCE).astype(float) for _ in range(0, RESAMPLINGS, _AT_ONCE))


def _laid_out(units: PairSums, kind: str, scored: Sequence[Scored], shape: tuple[int, int]) -> dict[str, FloatArray]:
    """What labels follow from, pattern by pattern, of the patterns that need it; `shape` is layers and heads.

    Shape: each [pattern, unit, layer, head], or 1 in place of layer or head.
    """
    quantities = {}
    for name in _QUANTITIES:
        values = units[f"{kind}.{name}"][..., columns_of(name, scored)]
        # how many are eligible, and what chance gives them, hang on no head but where some carry nothing
        values = squeezed(values) if name in ("n", "chance") else values
        if name == "weight":  # which may come with one for all heads
            values = np.broadcast_to(values, (len(values), *shape, len(scored)))
        quantities[name] = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    return quantities


def _table(laid_out: Mapping[str, FloatArray], scored: Sequence[Scored], drawn: FloatArray) -> ScoreTable:
    """The scores by some drawings of the units, as far as labels need them.

    Shape: `drawn` [drawing, unit] -> each [drawing, layer, head, pattern], or 1 in place of layer or head.
    """

    def summed(name: str) -> FloatArray:
        values = laid_out[name]
        added: FloatArray = drawn @ values.reshape(*values.shape[:2], -1)
        return added.reshape(*added.shape[:2], *values.shape[2:])

    weight, n, chance = map(summed, ("weight", "n", "chance"))
    with np.errstate(invalid="ignore", divide="ignore"):
        share, itself = (np.full_like(weight, np.nan) for _ in range(2))
        parts, of_others = (columns_of(name, scored) for name in ("whole", "itself"))
        share[parts] = weight[parts] / summed("whole")
        itself[of_others] = summed("itself") / n[of_others]
        return ScoreTable(
            score=_patterns_last(weight / n),
            chance=_patterns_last(chance / n),
            se=_UNKNOWN,  # what no label looks at
            n=_patterns_last(n).astype(np.int64),
            pairs=np.zeros_like(_UNKNOWN, dtype=np.int64),
            effective_pairs=_UNKNOWN,
            share=_patterns_last(share),
            itself=_patterns_last(itself),
        )


def _patterns_last(values: FloatArray) -> FloatArray:
    return np.moveaxis(values, 0, -1)
