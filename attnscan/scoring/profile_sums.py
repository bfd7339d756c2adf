"""What profiles are fitted from: sums over pairs, kept in blocks of pairs for the errors. Numpy, no torch.

A head's weights a_ij are approximated by Σ_p c_p t_p,ij with c ≥ 0, over all words i of all pairs. That needs no more
than the products of the parts with each other, Σ t_p t_q, and with the weights, Σ a t_p, and Σ a². The rows of
`same-keys` are each head's own, the others those of a layer.
Source of the errors: the delete-one-block jackknife; Efron and Tibshirani, An Introduction to the Bootstrap (1993), 11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnscan.results.profile import Fit
from attnscan.results.scores import FloatArray

_NEGLIGIBLE = 1e-12  # of a Gram matrix's largest eigenvalue: parts that cannot be told apart leave less
_TIE = 1e-9  # of a part's squares, the cost of using it: parts with equal rows share the weights, whatever the rounding


def sums_shapes(layers: int, heads: int, parts: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the sums that a profile of so many parts is fitted from, `same-keys` being the last of them."""
    return {
        "gram": (layers, parts - 1, parts - 1),
        "mass": (layers, parts),
        "even": (layers,),
        **dict.fromkeys(("products", "on_part"), (layers, heads, parts)),
        **dict.fromkeys(("same_keys", "squares", "on_even"), (layers, heads)),
        "words": (),
    }


def fitted(blocks: Mapping[str, FloatArray]) -> Fit:
    """Fit every head's attention by the parts, with errors where there are two blocks or more.

    Shape: `blocks` as `Profiler.sums` names them, [block, ...] each, or 1 in place of layer.
    """
    whole = _Total.of(blocks)
    share, explained = whole.fitted
    share_se, explained_se = map(spread, left_out(blocks))
    return Fit(share, share_se, explained, explained_se, whole.existing, whole.by_even)


def left_out(blocks: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The parts' shares, and how much they explain, with each block left out in turn; NaN below two blocks.

    Shape: [block, layer, head, part] and [block, layer, head].
    """
    count = len(blocks["words"])
    if count < 2:
        shape = (1, *_Total.of(blocks).on_part.shape)
        return np.full(shape, np.nan), np.full(shape[:-1], np.nan)
    others = (np.arange(count) != block for block in range(count))
    shares, explained = zip(
        *(_Total.of({name: values[kept] for name, values in blocks.items()}).fitted for kept in others), strict=True
    )
    return np.stack(shares), np.stack(explained)


@dataclass(frozen=True)
class _Total:
    """Sums over the words of some pairs, of the shapes of `sums_shapes`."""

    gram: FloatArray
    """Of t_p x t_q, which depends on a layer's mask and not on the head; without `same-keys`."""
    mass: FloatArray
    """Of t_p; of `same-keys`, how many words there are that have others beside them."""
    even: FloatArray
    """Of e x e, with e the even row over all keys that a word may see."""
    products: FloatArray
    """Of m x t_p, with m the row of `same-keys`; the last is m x m."""
    on_part: FloatArray
    """Of a x t_p."""
    same_keys: FloatArray
    """Of m."""
    squares: FloatArray
    """Of a x a."""
    on_even: FloatArray
    """Of a x e."""
    words: FloatArray
    """How many words there were."""

    @classmethod
    def of(cls, blocks: Mapping[str, FloatArray]) -> _Total:
        """Add some blocks."""
        total = {name: values.sum(0) for name, values in blocks.items()}
        shapes = sums_shapes(*total["on_part"].shape)
        return cls(**{name: np.broadcast_to(values, shapes[name]) for name, values in total.items()})

    @property
    def existing(self) -> FloatArray:
        """For what share of words there is such a part. Shape: [layer, part]."""
        existing: FloatArray = self.mass / max(float(self.words), 1.0)
        return existing

    @property
    def by_even(self) -> FloatArray:
        """How much of the squared weights an even row explains by itself. Shape: [layer, head]."""
        with np.errstate(invalid="ignore", divide="ignore"):
            explained: FloatArray = self.on_even**2 / self.even[:, None] / self.squares
            return explained

    @cached_property
    def fitted(self) -> tuple[FloatArray, FloatArray]:
        """The parts' shares, and how much of the squared weights they explain.

        Shape: [layer, head, part] and [layer, head].
        A part that no word had has no share: NaN, as what is explained of a head without weights is.
        """
        from scipy.optimize import nnls

        coefficients, grams = np.zeros_like(self.on_part), self._grams
        for layer, of_heads in enumerate(grams):
            there = np.flatnonzero(self.mass[layer] > 0)
            factors = _roots(of_heads[:, there[:, None], there])
            for head, ((root, inverse), on_part) in enumerate(zip(factors, self.on_part[layer][:, there], strict=True)):
                coefficients[layer, head, there], _ = nnls(root, inverse @ on_part)
        left = np.einsum("lhp,lhpq,lhq->lh", coefficients, grams, coefficients)
        left -= 2 * (coefficients * self.on_part).sum(-1)
        rows = np.broadcast_to(self.existing[:, None], coefficients.shape).copy()
        rows[..., -1] = self.same_keys / max(float(self.words), 1.0)
        share = np.where(self.mass[:, None] > 0, coefficients * rows, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return share, -left / self.squares

    @property
    def _grams(self) -> FloatArray:
        """Every two parts' rows multiplied and added. Shape: [layer, head, part, part]."""
        parts = self.products.shape[-1]
        grams = np.empty((*self.products.shape, parts))
        grams[..., :-1, :-1] = self.gram[:, None]
        grams[..., -1, :] = grams[..., -1] = self.products
        grams *= 1 + _TIE * np.eye(parts)
        return grams


def _roots(grams: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """R and S of each Gram matrix G, such that RᵀR = G and ‖R c - S b‖² is cᵀG c - 2 bᵀc and a constant.

    By eigenvectors, since Cholesky's factor is not there for parts that no pair tells apart.
    """
    for values, vectors in zip(*np.linalg.eigh(grams), strict=True):
        kept = values > _NEGLIGIBLE * values.max(initial=0)
        root = np.sqrt(values[kept])
        yield root[:, None] * vectors[:, kept].T, vectors[:, kept].T / root[:, None]


def spread(left_out: FloatArray) -> FloatArray:
    """The jackknife's standard error of what is known with each block left out. Shape: [block, ...] -> [...]."""
    count = len(left_out)
    squares = (left_out - left_out.mean(0)) ** 2
    error: FloatArray = np.sqrt((count - 1) / count * squares.sum(0))
    return error
