"""Which words are related: nearest neighbours in the model's own input embeddings.

Two words are related if each is among the other's nearest, and near enough: by a cosine that one of
ten thousand pairs of words reaches, so that every model brings its own measure. The mean word is
subtracted first: it makes any two words of some models point the same way. Two of the most frequent
words are never related, for what these have in common is that they are frequent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from attnscan.inputs.sentence import NO_WORD
from attnscan.inputs.vocabulary import Units, WholeWords

_NEIGHBOURS = 10
# of which the threshold is taken: 0.15 s of one core at 384 dimensions, beside 2 s for all
_MOST_PAIRS = 15_000_000
_TOP_SHARE = 0.0001  # at or above the 99.99th percentile
_MIN_WORDS = 1000  # of fewer, a ten-thousandth of the pairs is next to nothing
_TABLE_ROWS = 16_384  # of the embeddings that are looked at at once, for memory's sake
_SAMPLE_ROWS = 512  # of a sample of words
# words whose neighbours are sought at once, always as many: another number would round otherwise
_TOGETHER = 16
_ROUNDING = 1e-4  # more than two ways to compute a cosine differ by
_NOT_NEAR = -2.0  # below every cosine
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Relatedness:
    """A model's embedding rows, and which of its words are related by them."""

    embedding: Tensor
    """Shape: [vocabulary, dimension], as in the model, on any device."""
    words: WholeWords
    _nearest: dict[int, dict[int, float]] = field(default_factory=dict, repr=False, compare=False)
    """Of each word that was asked for so far, its nearest ones and their cosines."""

    def related(self, inputs: Sequence[Units]) -> Tensor:
        """Which units of each input are related, none to itself.

        A word of several tokens is related to none. Only cosines are computed where the embeddings
        are. Shape: [input, unit, unit], bool, symmetric, on the CPU.
        """
        ids, places = np.unique(self.words.word_ids(inputs), return_inverse=True)
        places = places.reshape(len(inputs), -1)
        related = np.zeros((len(ids), len(ids)), dtype=np.bool_)
        if self.threshold <= 1:
            pairs = self._candidates(ids, places)
            self._find_nearest(set(ids[pairs].ravel().tolist()))
            words = ids[pairs].tolist()
            for (first, second), (word, other) in zip(pairs.tolist(), words, strict=True):
                forth = self._nearest[word].get(other, _NOT_NEAR)
                back = self._nearest[other].get(word, _NOT_NEAR)
                if min(forth, back) >= self.threshold:
                    related[first, second] = True
                    related[second, first] = True
        return torch.from_numpy(related[places[:, :, None], places[:, None, :]])

    def _candidates(self, ids: IntArray, places: IntArray) -> IntArray:
        """Pairs of words of one input that are near enough, by all but rounding.

        Only these have their neighbours sought. Shape: `ids` [word], `places` [input, unit] among
        these; [pair, 2], places among the words.
        """
        known = torch.from_numpy(ids.clip(0)).to(self.embedding.device)
        directions = self._directions(known)
        is_near = directions @ directions.T >= self.threshold - _ROUNDING
        near = is_near.cpu().numpy()
        is_word = ids != NO_WORD
        is_frequent = np.isin(ids, self._word_ids[: len(self.words.frequent)])
        both_frequent = is_frequent & is_frequent[:, None]
        near = near & is_word & is_word[:, None] & ~both_frequent
        occurs = np.zeros((len(ids), len(places)), np.float32)
        occurs[places, np.arange(len(places))[:, None]] = 1
        meet = occurs @ occurs.T > 0
        return np.argwhere(np.triu(near & meet, 1))

    @cached_property
    def threshold(self) -> float:
        """The cosine in [-1, 1] from which two words are near enough.

        Infinity if no pair of them stands out.
        """
        size = len(self._ids)
        if size < _MIN_WORDS:
            return math.inf
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(size, generator=generator).to(self._ids.device)
        # the pairs within samples stand for all
        n_samples = math.ceil(size**2 / 2 / _MOST_PAIRS)
        samples = [self._ids[order[first::n_samples]] for first in range(n_samples)]
        n_pairs = sum(math.comb(len(sample), 2) for sample in samples)
        n_top = math.ceil(n_pairs * _TOP_SHARE)
        top = self.embedding.new_full((n_top,), -1, dtype=torch.float32)
        total = 0.0
        for sample in samples:
            directions = self._directions(sample)
            total += _sum_of_cosines(directions)
            for start in range(0, len(directions), _SAMPLE_ROWS):
                rows = directions[start : start + _SAMPLE_ROWS]
                cosine = (rows @ directions[start:].T).triu(1)  # each pair once
                higher = cosine[cosine > top[-1].clamp_min(0)]
                top = torch.cat([top, higher]).topk(n_top).values
        high = top[-1].item()
        usual = total / n_pairs
        # all alike, or all at right angles, do not stand out; NaN does not, either
        return high if high > usual + 1e-3 else math.inf

    def _find_nearest(self, words: Collection[int]) -> None:
        """Find the nearest words of those that were not asked for before."""
        waiting = sorted(word for word in words if word not in self._nearest)
        if not waiting:
            return
        filling = [waiting[-1]] * (-len(waiting) % _TOGETHER)
        blocks = torch.tensor([*waiting, *filling], device=self.embedding.device)
        neighbours = []
        cosines = []
        for ids in torch.split(blocks, _TOGETHER):
            cosine = self._cosines(self._directions(ids))
            cosine.scatter_(1, ids[:, None], _NOT_NEAR)
            nearest = cosine.topk(_NEIGHBOURS)
            neighbours.append(nearest.indices)
            cosines.append(nearest.values)
        rows = zip(torch.cat(neighbours).tolist(), torch.cat(cosines).tolist(), strict=True)
        for word, (near_words, near_cosines) in zip(waiting, rows, strict=False):
            self._nearest[word] = dict(zip(near_words, near_cosines, strict=True))

    def _cosines(self, directions: Tensor) -> Tensor:
        """Cosines of directions with every row; `_NOT_NEAR` with what is no word.

        Shape: [direction, dimension] -> [direction, vocabulary].
        """
        mean, scale = self._centre
        # the faster way round
        parts = [rows.float() @ directions.T for rows in torch.split(self.embedding, _TABLE_ROWS)]
        cosine = torch.cat(parts).T.contiguous()
        cosine.sub_((directions @ mean)[:, None]).mul_(scale)
        is_no_word = torch.ones_like(scale, dtype=torch.bool).index_fill(0, self._ids, False)
        return cosine.masked_fill_(is_no_word, _NOT_NEAR)

    def _directions(self, ids: Tensor) -> Tensor:
        """Unit vectors from the mean word to some words. Shape: [word] -> [word, dimension]."""
        mean, _ = self._centre
        return normalize(self.embedding[ids].float() - mean, dim=-1)

    @cached_property
    def _word_ids(self) -> list[int]:
        """The ids of all whole words that have a row."""
        rows = len(self.embedding)
        return [number for number in self.words.ids.values() if number < rows]

    @cached_property
    def _ids(self) -> Tensor:
        """The same where the embeddings are. Shape: [word]."""
        return torch.tensor(self._word_ids, dtype=torch.long, device=self.embedding.device)

    @cached_property
    def _centre(self) -> tuple[Tensor, Tensor]:
        """The mean word, and one over every row's distance from it.

        Shape: [dimension] and [vocabulary].
        """
        sums = [self.embedding[ids].float().sum(0) for ids in torch.split(self._ids, _TABLE_ROWS)]
        mean = torch.stack(sums).sum(0) / len(self._ids)
        tables = torch.split(self.embedding, _TABLE_ROWS)
        lengths = torch.cat([(rows.float() - mean).norm(dim=-1) for rows in tables])
        return mean, 1 / lengths.clamp_min(1e-12)


def _sum_of_cosines(directions: Tensor) -> float:
    """The sum over all pairs of unit vectors. Shape: [direction, dimension]."""
    squared_sum = directions.sum(0).square().sum()
    return (squared_sum - directions.square().sum()).item() / 2
