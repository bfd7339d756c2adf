"""What profiles are fitted from: sums over pairs, kept in blocks of pairs for the errors. Numpy, no torch.

A head's weights a_ij are approximated by Σ_p c_p t_p,ij with c ≥ 0, over all words i of all pairs. That needs no more
than the products of the parts with each other, Σ t_p t_q, and with the weights, Σ a t_p, and Σ a².
Source of the errors: the delete-one-block jackknife; Efron and Tibshirani, An Introduction to the Bootstrap (1993), 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnscan.results.profile import Fit
from attnscan.results.scores import FloatArray

_NEGLIGIBLE = 1e-12  # of a Gram matrix's largest eigenvalue: parts that cannot be told apart leave less


def fitted(blocks: Mapping[str, FloatArray]) -> Fit:
    """Fit every head's attention by the parts, with errors where there are two blocks or more.

    Shape: `blocks` as `Profiler.sums` names them, [block, ...] each, or 1 in place of layer.
    """
    whole = _Total.of(blocks)
    share, explained = whole.fitted
    count = len(blocks["words"])
    if count < 2:
        return Fit(share, np.full_like(share, np.nan), explained, np.full_like(explained, np.nan), whole.existing)
    others = (np.arange(count) != block for block in range(count))
    left_out = [_Total.of({name: values[kept] for name, values in blocks.items()}).fitted for kept in others]
    share_se, explained_se = (_spread(np.stack(values)) for values in zip(*left_out, strict=True))
    return Fit(share, share_se, explained, explained_se, whole.existing)


@dataclass(frozen=True)
class _Total:
    """Sums over the words of some pairs."""

    gram: FloatArray
    """Of t_p x t_q, which depends on a layer's mask and not on the head. Shape: [layer, part, part]."""
    on_part: FloatArray
    """Of a x t_p. Shape: [layer, head, part]."""
    mass: FloatArray
    """Of t_p: for how many words there is such a part. Shape: [layer, part]."""
    squares: FloatArray
    """Of a x a. Shape: [layer, head]."""
    words: FloatArray
    """How many words there were. Shape: []."""

    @classmethod
    def of(cls, blocks: Mapping[str, FloatArray]) -> _Total:
        """Add some blocks."""
        total = {name: values.sum(0) for name, values in blocks.items()}
        layers = len(total["on_part"])
        alike = {name: np.broadcast_to(total[name], (layers, *total[name].shape[1:])) for name in ("gram", "mass")}
        return cls(**{**total, **alike})

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
