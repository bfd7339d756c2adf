"""Which words are related: near in the model's own input embeddings.

Near means a cosine at or above the 99.9th percentile of random pairs from the vocabulary, so that
every model brings its own measure of "near" (raw cosines of different models do not compare).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

_SAMPLE = 1024  # tokens on each side of the random pairs: about a million cosines
_TOP_SHARE = 0.001  # above the 99.9th percentile


@dataclass(frozen=True)
class Relatedness:
    """A model's embedding rows and the cosine from which two of its tokens count as related."""

    embedding: Tensor
    """Shape: [vocabulary, dimension], as in the model."""
    threshold: float
    """Cosine in [-1, 1], or infinity if no pair stands out (all rows alike, or all orthogonal)."""

    @classmethod
    def of(cls, embedding: Tensor, seed: int) -> Relatedness:
        """Measure the threshold on pairs of tokens drawn with `seed`."""
        size = len(embedding)
        generator = torch.Generator().manual_seed(seed)
        left, right = torch.randint(size, (2, min(_SAMPLE, size)), generator=generator).to(embedding.device)
        cosine = normalize(embedding[left].float(), dim=-1) @ normalize(embedding[right].float(), dim=-1).T
        cosine = cosine[left[:, None] != right[None, :]]  # a token beside itself says nothing
        if not len(cosine):
            return cls(embedding, float("inf"))
        high = cosine.topk(math.ceil(len(cosine) * _TOP_SHARE)).values[-1].item()
        stands_out = high > cosine.mean().item() + 1e-6
        return cls(embedding, high if stands_out else float("inf"))

    def related(self, ids: Tensor, unit: Tensor) -> Tensor:
        """Which words of one input are related; a word of several tokens is the mean of their rows.

        Shape: `ids` [token], the `unit` [token] that each belongs to -> [unit, unit], bool, symmetric.
        """
        place = self.embedding.device
        rows = normalize(self.embedding[ids.to(place)].float(), dim=-1)
        size = int(unit.max()) + 1
        words = normalize(rows.new_zeros(size, rows.shape[1]).index_add(0, unit.to(place), rows), dim=-1)
        return (words @ words.T >= self.threshold).cpu()
