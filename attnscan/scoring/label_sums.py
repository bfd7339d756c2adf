"""What labels over many pairs are told to be sure by: sums of blocks of pairs, and how many pairs say the same. Numpy.

To see whether a label stays, pairs are drawn again, and so their sums are needed block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from attnscan.results.labels import MOST_HEADS, Agreement
from attnscan.results.scores import FloatArray, IntArray, Race, Scores, ScoreTable
from attnscan.results.terms import Scored
from attnscan.scoring.block_sums import BlockSums, most_blocks, squeezed
from attnscan.scoring.sums import KINDS, Adding, PairSums

QUANTITIES = ("weight", "n", "chance", "whole", "itself")
"""What a label follows from, by the names of `Scorer.pair_sums`."""


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
        votes = votes_of(pairs, scored, threshold)
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


def votes_of(pairs: PairSums, scored: Sequence[Scored], threshold: float) -> IntArray:
    """What label each pair by itself gives every head, counted. Shape: [kind, layer, head, pattern + 1]."""
    found = []
    for kind in KINDS:
        table = table_of(*(pairs[f"{kind}.{name}"] for name in QUANTITIES))
        winners = Race(scored, table).winners(0, threshold)
        places = [*range(len(scored)), -1]
        found.append(np.stack([(winners == place).sum(0) for place in places], -1))
    return np.stack(found)


def _names() -> list[str]:
    return [f"{kind}.{name}" for kind in KINDS for name in QUANTITIES]


def columns_of(name: str, scored: Sequence[Scored]) -> list[int]:
    """The patterns whose labels need a quantity: few ask what a part has of its whole, or a word's weight on itself."""
    quantity = name.partition(".")[2]
    if quantity == "whole":
        return [p for p, pattern in enumerate(scored) if pattern.part_of is not None]
    return [p for p, pattern in enumerate(scored) if quantity != "itself" or pattern.of_others]
