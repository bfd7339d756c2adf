"""What profiles are fitted from: sums over pairs that add, kept in blocks of pairs for the errors. Numpy, no torch.

A head's weights a_ij are approximated by Σ_p c_p t_p,ij with c ≥ 0, over all words i of all pairs. That needs no more
than the products of the parts with each other, Σ t_p t_q, and with the weights, Σ a t_p, and Σ a². A pair's block goes
by its text, so that shards, order and resumption change nothing.
Source of the errors: the delete-one-block jackknife; Efron and Tibshirani, An Introduction to the Bootstrap (1993), 11.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from attnscan.inputs.pairs import Pair
from attnscan.results.profile import BLOCKS, Fit
from attnscan.results.scores import FloatArray

_NEGLIGIBLE = 1e-12  # of a Gram matrix's largest eigenvalue: parts that cannot be told apart leave less


def block_of(pair: Pair) -> int:
    """Which block a pair is in, by a hash of its sentences."""
    return int(pair.key[:8], 16) % BLOCKS


@dataclass(frozen=True)
class ProfileSums:
    """Sums over the words of pairs, block by block. They add."""

    gram: FloatArray
    """Of t_p x t_q, which hangs on a layer's mask and not on the head. Shape: [block, layer, part, part]."""
    on_part: FloatArray
    """Of a x t_p. Shape: [block, layer, head, part]."""
    mass: FloatArray
    """Of t_p: for how many words there is such a part. Shape: [block, layer, part]."""
    squares: FloatArray
    """Of a x a. Shape: [block, layer, head]."""
    words: FloatArray
    """How many words there were. Shape: [block]."""

    def __add__(self, other: ProfileSums) -> ProfileSums:
        return ProfileSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def fields(self) -> tuple[FloatArray, ...]:
        """All of them, in order."""
        return tuple(getattr(self, f.name) for f in fields(self))

    @classmethod
    def zero(cls, layers: int, heads: int, parts: int, blocks: int = BLOCKS) -> ProfileSums:
        """Of no pair."""
        shapes = (layers, parts, parts), (layers, heads, parts), (layers, parts), (layers, heads), ()
        return cls(*(np.zeros((blocks, *shape)) for shape in shapes))

    def finish(self) -> Fit:
        """The parts' shares in every head, with errors where at least two blocks have pairs."""
        whole = self._without(None)
        share, explained = whole.fitted
        filled = np.flatnonzero(self.words)
        if len(filled) < 2:
            return Fit(share, np.full_like(share, np.nan), explained, np.full_like(explained, np.nan), whole.existing)
        left_out = [self._without(int(block)).fitted for block in filled]
        share_se, explained_se = (_spread(np.stack(values)) for values in zip(*left_out, strict=True))
        return Fit(share, share_se, explained, explained_se, whole.existing)

    def _without(self, block: int | None) -> _Total:
        """All blocks added, but for one."""
        kept = np.arange(len(self.words)) != block
        return _Total(*(getattr(self, f.name)[kept].sum(0) for f in fields(self)))


@dataclass(frozen=True)
class _Total:
    """The sums of some blocks together, of the shapes above without the block."""

    gram: FloatArray
    on_part: FloatArray
    mass: FloatArray
    squares: FloatArray
    words: FloatArray

    @property
    def existing(self) -> FloatArray:
        """For what share of words there is such a part. Shape: [layer, part]."""
        existing: FloatArray = self.mass / max(float(self.words), 1.0)
        return existing

    @cached_property
    def fitted(self) -> tuple[FloatArray, FloatArray]:
        """The parts' shares, and how much of the squared weights they explain.

        Shape: [layer, head, part] and [layer, head].
        A part that no word had has no share: NaN, as what is explained of a head without weights is.
        """
        from scipy.optimize import nnls

        coefficients = np.zeros_like(self.on_part)
        for layer, gram in enumerate(self.gram):
            there = np.flatnonzero(self.mass[layer] > 0)
            root, inverse = _roots(gram[np.ix_(there, there)])
            for head, on_part in enumerate(self.on_part[layer][:, there]):
                coefficients[layer, head, there], _ = nnls(root, inverse @ on_part)
        left = np.einsum("lhp,lpq,lhq->lh", coefficients, self.gram, coefficients)
        left -= 2 * (coefficients * self.on_part).sum(-1)
        share = np.where(self.mass[:, None] > 0, coefficients * self.existing[:, None], np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return share, -left / self.squares


def _roots(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R and S such that RᵀR is the Gram matrix and ‖R c - S b‖² differs from cᵀG c - 2 bᵀc by a constant.

    By eigenvectors, since Cholesky's factor is not there for parts that no pair tells apart.
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > _NEGLIGIBLE * values.max(initial=0)
    root = np.sqrt(values[kept])
    return root[:, None] * vectors[:, kept].T, vectors[:, kept].T / root[:, None]


def _spread(left_out: FloatArray) -> FloatArray:
    """The jackknife's standard error of what was found with each block left out. Shape: [block, ...] -> [...]."""
    count = len(left_out)
    squares = (left_out - left_out.mean(0)) ** 2
    error: FloatArray = np.sqrt((count - 1) / count * squares.sum(0))
    return error
