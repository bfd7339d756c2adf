"""Which words are related: each among the other's nearest in the model's own input embeddings, and near enough.

Near enough means a cosine that one of ten thousand pairs of words reaches, so that every model brings its own measure
of "near". The mean word is subtracted first: it makes any two words of some models point the same way. Two of the
most frequent words are never related, for what these have in common is that they are frequent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnscan.inputs.vocabulary import WholeWords

_NEIGHBOURS = 10
_SAMPLE = 3000  # words on each side of the pairs of which the threshold is taken: nine million cosines
_TOP_SHARE = 0.0001  # at or above the 99.99th percentile
_FEWEST = 1000  # words; of fewer, a ten-thousandth of the pairs is next to nothing
_ROWS = 16_384  # of the table that are looked at at once, for memory's sake
_TOGETHER = 16  # words whose neighbours are sought at once, always as many: another number would round otherwise
_ROUNDING = 1e-4  # more than two ways to compute a cosine differ by


Units = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""An input's tokens, and the sentence and the unit that each is of. Shape: all three [token]."""


class Relation(Protocol):
    """What says which words are related."""

    def related(self, inputs: Sequence[Units]) -> list[Tensor]:
        """Which units of each input are related, none to itself. Shape: each [unit, unit], bool, symmetric."""


@dataclass(frozen=True)
class Both:
    """Related for both of two relations: of two models that read the same tokens."""

    one: Relation
    other: Relation

    def related(self, inputs: Sequence[Units]) -> list[Tensor]:
        """As `Relation.related`."""
        return [
            ours & theirs for ours, theirs in zip(self.one.related(inputs), self.other.related(inputs), strict=True)
        ]


@dataclass(frozen=True)
class Relatedness:
    """A model's embedding rows, and which of its words are related by them."""

    embedding: Tensor
    """Shape: [vocabulary, dimension], as in the model, on any device."""
    words: WholeWords
    seed: int
    """Draws the pairs that the threshold is taken of."""
    _nearest: dict[int, dict[int, float]] = field(default_factory=dict, repr=False, compare=False)
    """Of each word that was asked for so far, its nearest ones and their cosines."""

    def related(self, inputs: Sequence[Units]) -> list[Tensor]:
        """As `Relation.related`. A word of several tokens is related to none."""
        words = [self.words.of_units(*units) for units in inputs]
        pairs = [self._near({word for word in each if word is not None}) for each in words]
        self._seek({word for each in pairs for pair in each for word in pair})
        return [self._placed(each, filter(self._is_related, near)) for each, near in zip(words, pairs, strict=True)]

    def _near(self, words: Collection[int]) -> list[tuple[int, int]]:
        """Of the pairs of some words those that are near enough, by all but rounding, and not both frequent."""
        known = sorted(word for word in words if word < len(self.embedding))
        if len(known) < 2 or self.threshold > 1:
            return []
        directions = self._directions(torch.tensor(known, device=self.embedding.device))
        near = directions @ directions.T >= self.threshold - _ROUNDING
        pairs = ((known[i], known[j]) for i, j in near.triu(1).nonzero().tolist())
        return [pair for pair in pairs if not self.words.frequent.issuperset(pair)]

    def _is_related(self, pair: tuple[int, int]) -> bool:
        one, other = pair
        there, back = self._nearest[one].get(other, -2.0), self._nearest[other].get(one, -2.0)
        return min(there, back) >= self.threshold

    @staticmethod
    def _placed(words: Sequence[int | None], pairs: Iterable[tuple[int, int]]) -> Tensor:
        """Where an input has the words of some pairs."""
        related = torch.zeros(len(words), len(words), dtype=torch.bool)
        for pair in pairs:
            one, other = ([place for place, word in enumerate(words) if word == each] for each in pair)
            for place in one:
                related[place, other] = related[other, place] = True
        return related

    @cached_property
    def threshold(self) -> float:
        """The cosine in [-1, 1] from which two words are near enough; infinity if no pair of them stands out."""
        size = len(self._ids)
        if size < _FEWEST:
            return math.inf
        generator = torch.Generator().manual_seed(self.seed)
        left, right = (
            self._ids[torch.randperm(size, generator=generator)[:_SAMPLE].to(self._ids.device)] for _ in range(2)
        )
        right_directions = self._directions(right)
        most = math.ceil(len(left) * len(right) * _TOP_SHARE)
        top, total = right_directions.new_full((most,), -1), 0.0
        for part in _parts(left, _SAMPLE // 10):  # a tenth at a time, for memory's sake
            cosine = self._directions(part) @ right_directions.T
            total += cosine.sum().item()
            cosine.masked_fill_(part[:, None] == right[None, :], -1)  # a word beside itself says nothing
            top = torch.cat([top, cosine[cosine > top[-1]]]).topk(most).values
        high, usual = top[-1].item(), total / (len(left) * len(right))
        return high if high > usual + 1e-3 else math.inf  # all alike, or all at right angles; so it is with NaN

    def _seek(self, words: Collection[int]) -> None:
        """Find the nearest words of some, where that is still to be done."""
        waiting = sorted(word for word in words if word not in self._nearest)
        for start in range(0, len(waiting), _TOGETHER):
            block = waiting[start : start + _TOGETHER]
            filled = torch.tensor([*block, *[block[-1]] * (_TOGETHER - len(block))], device=self.embedding.device)
            cosine = self._cosines(self._directions(filled))
            cosine[torch.arange(_TOGETHER, device=filled.device), filled] = -2
            values, indices = (each.tolist() for each in cosine.topk(_NEIGHBOURS))
            for word, ids, cosines in zip(block, indices, values, strict=False):
                self._nearest[word] = dict(zip(ids, cosines, strict=True))

    def _cosines(self, directions: Tensor) -> Tensor:
        """Of some directions with every row of the table; -2 with what is no word.

        The mean is taken off the products in place of the rows, so that the table need not be copied.
        Shape: [direction, dimension] -> [direction, vocabulary].
        """
        mean, scale = self._centre
        parts = [rows.float() @ directions.T for rows in _parts(self.embedding)]  # this way round, the faster one
        cosine = torch.cat(parts).T.contiguous().sub_((directions @ mean)[:, None]).mul_(scale)
        return cosine.masked_fill_(~self._is_word, -2)

    def _directions(self, ids: Tensor) -> Tensor:
        mean, _ = self._centre
        return normalize(self.embedding[ids].float() - mean, dim=-1)

    @cached_property
    def _ids(self) -> Tensor:
        """All words that the table has a row for, in the order of their ids."""
        ids = [number for number in self.words.ids.values() if number < len(self.embedding)]
        return torch.tensor(ids, dtype=torch.long, device=self.embedding.device)

    @cached_property
    def _is_word(self) -> Tensor:
        """Shape: [vocabulary], bool."""
        return torch.zeros(len(self.embedding), dtype=torch.bool, device=self._ids.device).index_fill(
            0, self._ids, True
        )

    @cached_property
    def _centre(self) -> tuple[Tensor, Tensor]:
        """The mean word, and one over every row's distance from it. Shape: [dimension] and [vocabulary]."""
        parts = [self.embedding[ids].float().sum(0) for ids in _parts(self._ids)]
        mean = torch.stack(parts).sum(0) / len(self._ids)
        lengths = [(rows.float() - mean).norm(dim=-1) for rows in _parts(self.embedding)]
        return mean, 1 / torch.cat(lengths).clamp_min(1e-12)


def _parts(rows: Tensor, size: int = _ROWS) -> Iterator[Tensor]:
    """A table's rows, some at a time."""
    return (rows[start : start + size] for start in range(0, len(rows), size))
