"""Which words are related: each among the other's nearest in the model's own input embeddings, and near enough.

Near enough means a cosine that one of ten thousand pairs of words reaches, so that every model brings its own measure.
The mean word is subtracted first: it makes any two words of some models point the same way. Two of the most frequent
words are never related, for what these have in common is that they are frequent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnscan.inputs.sentence import NO_WORD
from attnscan.inputs.tokens import Units, WholeWords

_NEIGHBOURS = 10
_MOST_PAIRS = 15_000_000  # of which the threshold is taken: 0.15 s of one core at 384 dimensions, beside 2 s for all
_TOP_SHARE = 0.0001  # at or above the 99.99th percentile
_FEWEST = 1000  # words; of fewer, a ten-thousandth of the pairs is next to nothing
_ROWS, _ROWS_OF_HAND = 16_384, 512  # of the table, and of a hand, that are looked at at once, for memory's sake
_TOGETHER = 16  # words whose neighbours are sought at once, always as many: another number would round otherwise
_ROUNDING = 1e-4  # more than two ways to compute a cosine differ by

Relation = Callable[[Sequence[Units]], Tensor]
"""Says which units of some inputs are related. Shape: [input, unit, unit], bool, symmetric."""


@dataclass(frozen=True)
class Relatedness:
    """A model's embedding rows, and which of its words are related by them."""

    embedding: Tensor
    """Shape: [vocabulary, dimension], as in the model, on any device."""
    words: WholeWords
    _nearest: dict[int, dict[int, float]] = field(default_factory=dict, repr=False, compare=False)
    """Of each word that was asked for so far, its nearest ones and their cosines."""

    def related(self, inputs: Sequence[Units]) -> Tensor:
        """Which units of each input are related, none to itself. A word of several tokens is related to none.

        Shape: [input, unit, unit], bool, symmetric, where the embeddings are.
        """
        device = self.embedding.device
        words = torch.from_numpy(self.words.of_units(inputs)).to(device)
        ids, places = torch.unique(words, return_inverse=True)
        related = torch.zeros(len(ids), len(ids), dtype=torch.bool, device=device)
        if self.threshold <= 1:
            directions = self._directions(ids.clip(0))
            frequent = torch.isin(ids, self._ids[: len(self.words.frequent)])
            # only words that are near enough, by all but rounding, have their neighbours sought
            near = directions @ directions.T >= self.threshold - _ROUNDING
            near &= (ids != NO_WORD) & (ids != NO_WORD)[:, None] & ~(frequent & frequent[:, None])
            inside = torch.zeros(len(ids), len(places), device=device)
            inside[places, torch.arange(len(places), device=device)[:, None]] = 1
            pairs = (near & (inside @ inside.T > 0)).triu(1).nonzero()
            self._seek(set(ids[pairs].flatten().tolist()))
            for (first, second), (word, other) in zip(pairs.tolist(), ids[pairs].tolist(), strict=True):
                there, back = self._nearest[word].get(other, -2.0), self._nearest[other].get(word, -2.0)
                if min(there, back) >= self.threshold:
                    related[first, second] = related[second, first] = True
        return related[places[:, :, None], places[:, None, :]]

    @cached_property
    def threshold(self) -> float:
        """The cosine in [-1, 1] from which two words are near enough; infinity if no pair of them stands out."""
        size = len(self._ids)
        if size < _FEWEST:
            return math.inf
        order = torch.randperm(size, generator=torch.Generator().manual_seed(0)).to(self._ids.device)
        count = math.ceil(size**2 / 2 / _MOST_PAIRS)  # of hands, the pairs inside which stand for all
        hands = [self._ids[order[first::count]] for first in range(count)]
        pairs = sum(math.comb(len(hand), 2) for hand in hands)
        top, total = self.embedding.new_full((math.ceil(pairs * _TOP_SHARE),), -1, dtype=torch.float32), 0.0
        for directions in map(self._directions, hands):
            total += (directions.sum(0).square().sum() - directions.square().sum()).item() / 2
            for start in range(0, len(directions), _ROWS_OF_HAND):
                cosine = (directions[start : start + _ROWS_OF_HAND] @ directions[start:].T).triu(1)  # each pair once
                top = torch.cat([top, cosine[cosine > top[-1].clamp_min(0)]]).topk(len(top)).values
        high, usual = top[-1].item(), total / pairs
        return high if high > usual + 1e-3 else math.inf  # all alike, or all at right angles; so it is with NaN

    def _seek(self, words: Collection[int]) -> None:
        """Find the nearest words of some, where that is still to be done."""
        waiting = sorted(word for word in words if word not in self._nearest)
        for start in range(0, len(waiting), _TOGETHER):
            block = waiting[start : start + _TOGETHER]
            filled = torch.tensor([*block, *[block[-1]] * (_TOGETHER - len(block))], device=self.embedding.device)
            cosine = self._cosines(self._directions(filled))
            cosine[torch.arange(_TOGETHER, device=filled.device), filled] = -2
            nearest = cosine.topk(_NEIGHBOURS)
            for word, ids, cosines in zip(block, nearest.indices.tolist(), nearest.values.tolist(), strict=False):
                self._nearest[word] = dict(zip(ids, cosines, strict=True))

    def _cosines(self, directions: Tensor) -> Tensor:
        """Of directions with every row; -2 with what is no word. Shape: [direction, dimension] -> [., vocabulary]."""
        mean, scale = self._centre
        parts = [rows.float() @ directions.T for rows in torch.split(self.embedding, _ROWS)]  # the faster way round
        cosine = torch.cat(parts).T.contiguous().sub_((directions @ mean)[:, None]).mul_(scale)
        return cosine.masked_fill_(torch.ones_like(scale, dtype=torch.bool).index_fill(0, self._ids, False), -2)

    def _directions(self, ids: Tensor) -> Tensor:
        mean, _ = self._centre
        return normalize(self.embedding[ids].float() - mean, dim=-1)

    @cached_property
    def _ids(self) -> Tensor:
        ids = [number for number in self.words.ids.values() if number < len(self.embedding)]
        return torch.tensor(ids, dtype=torch.long, device=self.embedding.device)

    @cached_property
    def _centre(self) -> tuple[Tensor, Tensor]:
        """The mean word, and one over every row's distance from it. Shape: [dimension] and [vocabulary]."""
        parts = [self.embedding[ids].float().sum(0) for ids in torch.split(self._ids, _ROWS)]
        mean = torch.stack(parts).sum(0) / len(self._ids)
        lengths = [(rows.float() - mean).norm(dim=-1) for rows in torch.split(self.embedding, _ROWS)]
        return mean, 1 / torch.cat(lengths).clamp_min(1e-12)
