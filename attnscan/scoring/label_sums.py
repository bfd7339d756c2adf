"""What labels over many pairs are told to be sure by: sums of groups of pairs, and how many pairs say the same. Numpy.

To see whether a label stays, pairs are drawn anew, and so their sums are needed one by one. Up to `most_groups` pairs
are kept each by itself; of more, those whose hashes begin alike are added up, by as many bits as leave no more groups.
Which pairs are together follows from the pairs alone, so that shards, order and resumption change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from attnscan.inputs.pairs import Pair
from attnscan.results.labels import MOST_HEADS, Agreement
from attnscan.results.scores import FloatArray, IntArray, Race, Scores, ScoreTable
from attnscan.results.terms import Scored
from attnscan.scoring.sums import KINDS, PairSums

BITS = 64
"""Of a pair's hash."""
QUANTITIES = ("weight", "n", "chance", "whole", "itself")
"""What a label follows from, by the names of `Scorer.pair_sums`."""
_MOST_GROUPS, _FEWEST_GROUPS = 512, 32
_ROOM = 1 << 23  # numbers: 64 MB, and about as much in a state


def key_of(pair: Pair) -> int:
    """Number a pair by the first bits of its key."""
    return int(pair.key[: BITS // 4], 16)


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
class LabelSums:
    """Sums over pairs, by which labels are told to be sure or not. They add."""

    scored: tuple[Scored, ...]
    groups: Mapping[int, Mapping[str, FloatArray]]
    """Of each group of pairs, by its key, their sums as `Scorer.pair_sums` names them; none of too many heads.

    Shape: each [layer, head, pattern], or 1 where all layers or heads have the same.
    """
    votes: IntArray
    """How many pairs say each label, `mixed` being the last. Shape: [kind, layer, head, pattern + 1]."""
    bits: int = BITS
    """How much of a pair's hash its group's key is."""

    @classmethod
    def of(cls, pairs: PairSums, scored: tuple[Scored, ...], keys: Sequence[int], threshold: float) -> LabelSums:
        """Of some pairs, given what each is found by; a label is `threshold` above chance."""
        if pairs["every_key.weight"][0, ..., 0].size > MOST_HEADS:
            return cls(scored, {}, votes_of(pairs, scored, threshold))
        found = {name: squeezed(pairs[name][..., columns_of(name, scored)]) for name in _names()}
        alone = ({key: {name: values[i] for name, values in found.items()}} for i, key in enumerate(keys))
        return cls(scored, reduce(_added, alone, {}), votes_of(pairs, scored, threshold)).limited()

    def __getstate__(self) -> dict[str, Any]:
        """With one array for all groups, where they are alike: thousands of small ones take long to unpickle."""
        keys, sums = list(self.groups), list(self.groups.values())
        shapes = [{name: values.shape for name, values in each.items()} for each in sums]
        if not keys or any(each != shapes[0] for each in shapes):
            return vars(self)
        packed = {name: np.stack([each[name] for each in sums]) for name in shapes[0]}
        return {**vars(self), "groups": (keys, packed)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(groups := state["groups"], tuple):
            keys, packed = groups
            rows = zip(*packed.values(), strict=True)
            groups = {key: dict(zip(packed, row, strict=True)) for key, row in zip(keys, rows, strict=True)}
        vars(self).update({**state, "groups": groups})

    def __add__(self, other: LabelSums) -> LabelSums:
        bits = min(self.bits, other.bits)
        groups = _added(_by_fewer(self.groups, self.bits - bits), _by_fewer(other.groups, other.bits - bits))
        return LabelSums(self.scored, groups, self.votes + other.votes, bits).limited()

    def limited(self) -> LabelSums:
        """The same with no more groups than are kept: 512 of a model of 144 or 384 heads, fewer of one of thousands."""
        most = max(_FEWEST_GROUPS, min(_MOST_GROUPS, _ROOM // (len(KINDS) * self.votes[0].size)))
        groups, bits = self.groups, self.bits
        while len(groups) > most:
            groups, bits = _by_fewer(groups, 1), bits - 1
        return self if bits == self.bits else replace(self, groups=groups, bits=bits)

    def check(self) -> None:
        """Raises: ValueError if groups are not of the shape or the keys that they must be, as from a damaged file."""
        layers_and_heads = self.votes.shape[1:-1]
        for key, group in self.groups.items():
            if not 0 <= key < 1 << self.bits or not 0 <= self.bits <= BITS or set(group) != set(_names()):
                raise ValueError("groups of pairs of another kind")
            for name, values in group.items():
                shape = (*layers_and_heads, len(columns_of(name, self.scored)))
                if values.ndim != len(shape) or np.broadcast_shapes(values.shape, shape) != shape:
                    raise ValueError("groups of pairs of another shape")

    def units(self) -> PairSums:
        """The sums group by group; those that no label needs are zero.

        Shape: each [group, layer, head, pattern], or 1 in place of layer or head.
        """
        units: dict[str, FloatArray] = {}
        for name in _names() if self.groups else ():
            values = [self.groups[key][name] for key in sorted(self.groups)]
            shape = np.broadcast_shapes(*(each.shape for each in values))
            units[name] = np.zeros((len(values), *shape[:-1], len(self.scored)))
            units[name][..., columns_of(name, self.scored)] = np.stack(
                [np.broadcast_to(each, shape) for each in values]
            )
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


def _added(one: Mapping[int, Any], other: Mapping[int, Any]) -> dict[int, Any]:
    """The groups of both, those of one key added up."""
    added = dict(one)
    for key, sums in other.items():
        before = added.get(key)
        added[key] = sums if before is None else {name: before[name] + values for name, values in sums.items()}
    return added


def _by_fewer(groups: Mapping[int, Any], bits: int) -> Mapping[int, Any]:
    """The same by keys so many bits shorter."""
    if not bits:
        return groups
    shorter: dict[int, Any] = {}
    for key in sorted(groups):
        shorter = _added(shorter, {key >> bits: groups[key]})
    return shorter


def _names() -> list[str]:
    return [f"{kind}.{name}" for kind in KINDS for name in QUANTITIES]


def columns_of(name: str, scored: Sequence[Scored]) -> list[int]:
    """The patterns whose labels need a quantity: few ask what a part has of its whole, or a word's weight on itself."""
    quantity = name.partition(".")[2]
    if quantity == "whole":
        return [p for p, pattern in enumerate(scored) if pattern.part_of is not None]
    return [p for p, pattern in enumerate(scored) if quantity != "itself" or pattern.of_others]


def squeezed(values: FloatArray) -> FloatArray:
    """The same with 1 in place of layers or heads that do not differ: how many words are eligible hangs on neither.

    Shape: [pair, layer, head, pattern].
    """
    for axis in (2, 1):
        first = values.take([0], axis)
        if (values == first).all():
            values = first
    return values
