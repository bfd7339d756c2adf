"""Profiles in plain loops, as DESIGN.md words them: every part's rows written out, fitted by another solver.

Written apart from the product: nothing is taken from it but the types that its consumers are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from reference import Matrix, Written
from scipy.linalg import qr
from scipy.optimize import lsq_linear

DISTANCES = [f"offset{offset:+}" for offset in range(-8, 9)]
KINDS = ["start", "middle", "end", "punctuation", "own-sentence", "other-sentence"]
OwnPart = Callable[[Written, int, int], float]
"""What a key has in a query's row of a pattern of one's own, before the row is made even."""


@dataclass(frozen=True)
class WrittenPair:
    """One input by units, under one mask, and what every head of a layer does with it."""

    written: Written
    seen: NDArray[np.bool_]
    """Shape: [query, key]."""
    weights: Matrix
    """Shape: [head, query, key]."""
    block: int
    own: Mapping[str, OwnPart] = field(default_factory=dict)

    @property
    def parts(self) -> list[str]:
        return [*DISTANCES, "identical", "cross-sentence", *self.own, *KINDS, "same-keys"]

    def keys(self, part: str, i: int) -> list[int]:
        """The keys that a part of word `i` is even over, seen or not."""
        one = self.written
        everywhere, own = range(len(one.tokens)), one.sentence[i]
        special = [j for j in everywhere if one.sentence[j] < 0]
        if part.startswith("offset"):
            j = i + int(part.removeprefix("offset"))
            return [j] if j in everywhere and one.sentence[j] == own else []
        if part == "identical":
            return [j for j in one.same(i) if j != i and one.sentence[j] == own]
        if part == "cross-sentence":
            return [j for j in one.same(i) if one.sentence[j] != own]
        if part == "start":
            return [j for j in special if all(j < word for word in one.words)]
        if part == "end":
            return [j for j in special if all(j > word for word in one.words)]
        if part == "middle":
            return [j for j in special if any(word < j for word in one.words) and any(word > j for word in one.words)]
        if part == "punctuation":
            return [j for j in one.words if not any(c.isalnum() for c in one.tokens[j])]
        return [j for j in one.words if (one.sentence[j] == own) == (part == "own-sentence")]

    def row(self, part: str, i: int) -> Matrix:
        """A part of one word, written out."""
        row = np.zeros(len(self.written.tokens))
        if part in self.own:
            for j in range(len(row)):
                row[j] = self.own[part](self.written, i, j) if self.seen[i, j] else 0.0
        else:
            for j in self.keys(part, i):
                row[j] = 1.0 if self.seen[i, j] else 0.0
        return row / row.sum() if row.sum() > 0 else row

    def rows(self) -> Matrix:
        """All parts of all words but the last. Shape: [part, word, key]."""
        return np.array([[self.row(part, i) for i in self.written.words] for part in self.parts[:-1]])

    def same_keys(self, head: int) -> Matrix:
        """The mean row of all other words, on what a word sees. Shape: [word, key]."""
        words = self.written.words
        rows = np.zeros((len(words), len(self.written.tokens)))
        for number, i in enumerate(words):
            others = [self.weights[head, k] for k in words if k != i]
            if others:
                rows[number] = np.where(self.seen[i], sum(others) / len(others), 0)
        return rows

    def even(self) -> Matrix:
        """Even attention of all words over what they see. Shape: [word, key]."""
        seen = self.seen[self.written.words].astype(float)
        return seen / seen.sum(1, keepdims=True)


@dataclass(frozen=True)
class WrittenSums:
    """What one layer's pairs add up to in one block."""

    gram: Matrix
    on_part: Matrix
    mass: Matrix
    squares: Matrix
    words: int
    products: Matrix
    same_keys: Matrix
    even: float
    on_even: Matrix


def sums(pairs: Sequence[WrittenPair], block: int) -> WrittenSums:
    """Of the pairs of a block, cell by cell."""
    parts, heads = len(pairs[0].parts), len(pairs[0].weights)
    gram, on_part, mass = np.zeros((parts - 1, parts - 1)), np.zeros((heads, parts)), np.zeros(parts)
    squares, words, even = np.zeros(heads), 0, 0.0
    products, same_keys, on_even = np.zeros((heads, parts)), np.zeros(heads), np.zeros(heads)
    for pair in (pair for pair in pairs if pair.block == block):
        rows, evenly = pair.rows(), pair.even()
        same = np.array([pair.same_keys(head) for head in range(heads)])
        for number, i in enumerate(pair.written.words):
            words += 1
            mass[-1] += len(pair.written.words) > 1
            for j in range(len(pair.written.tokens)):
                cell, weights = rows[:, number, j], pair.weights[:, i, j]
                gram += cell[:, None] * cell[None, :]
                mean = same[:, number, j]
                on_part += weights[:, None] * np.column_stack([np.tile(cell, (heads, 1)), mean])
                products += mean[:, None] * np.column_stack([np.tile(cell, (heads, 1)), mean])
                squares += weights**2
                mass[:-1] += cell
                same_keys += mean
                even += evenly[number, j] ** 2
                on_even += weights * evenly[number, j]
    return WrittenSums(gram, on_part, mass, squares, words, products, same_keys, even, on_even)


@dataclass(frozen=True)
class WrittenFit:
    """One head's profile."""

    share: Matrix
    explained: float
    unique: bool
    """Whether no other shares fit as well: the parts that there are differ."""
    most_left: float
    """How far the weights would still fall if one more part were given its best share; 0 at the best fit."""
    by_even: float


def fit(pairs: Sequence[WrittenPair], head: int) -> WrittenFit:
    """Fit all cells of all words at once, by a bounded-variable least-squares solver on the stacked rows."""
    by_pair = [np.concatenate([pair.rows(), pair.same_keys(head)[None]]) for pair in pairs]
    stacked = np.concatenate([rows.reshape(len(rows), -1) for rows in by_pair], 1).T  # [cell, part]
    even = np.concatenate([pair.even().reshape(-1) for pair in pairs])
    cells = np.concatenate([pair.weights[head, pair.written.words].reshape(-1) for pair in pairs])
    words = sum(len(pair.written.words) for pair in pairs)
    mass = stacked.sum(0)
    there = np.flatnonzero(mass > 0)
    q, r = qr(stacked[:, there], mode="economic")
    best = lsq_linear(r, q.T @ cells, bounds=(0, np.inf), method="bvls", tol=1e-15, max_iter=2000).x
    left = cells - stacked[:, there] @ best
    share = np.full(len(mass), np.nan)
    share[there] = best * mass[there] / words
    spread = np.linalg.svd(stacked[:, there], compute_uv=False)
    return WrittenFit(
        share,
        1 - float(left @ left) / float(cells @ cells) if cells.any() else np.nan,
        bool(len(spread) == len(there) and spread[-1] > 1e-3 * spread[0]),
        float((stacked[:, there].T @ left).max(initial=0)),
        float(cells @ even) ** 2 / float(even @ even) / float(cells @ cells) if cells.any() else np.nan,
    )


def jackknife(pairs: Sequence[WrittenPair], head: int) -> tuple[Matrix, float, bool]:
    """The standard errors of shares and of what is explained, by fitting again without each block."""
    blocks = sorted({pair.block for pair in pairs})
    if len(blocks) < 2:
        return np.full(len(pairs[0].parts), np.nan), np.nan, True
    fits = [fit([pair for pair in pairs if pair.block != block], head) for block in blocks]
    shares = np.array([one.share for one in fits])
    explained = np.array([one.explained for one in fits])
    factor = (len(blocks) - 1) / len(blocks)
    errors = [np.sqrt(factor * ((each - each.mean(0)) ** 2).sum(0)) for each in (shares, explained)]
    return errors[0], float(errors[1]), all(one.unique for one in fits)


def merged(weights: Matrix, unit: Sequence[int], taking: bool) -> Matrix:
    """Weights of tokens as weights of words; with `taking`, words whose pieces take nothing at times share the rest.

    Shape: [head, token, token] -> [head, unit, unit].
    """
    width = max(unit) + 1
    result = np.zeros((len(weights), width, width))
    for head in range(len(weights)):
        for a in range(width):
            pieces = [i for i, number in enumerate(unit) if number == a]
            for b in range(width):
                to = [sum(weights[head, i, j] for j, number in enumerate(unit) if number == b) for i in pieces]
                result[head, a, b] = sum(to) / len(pieces)
            if taking and result[head, a].sum() > 0:
                result[head, a] /= result[head, a].sum()
    return result


def merged_mask(seen: NDArray[np.bool_], unit: Sequence[int]) -> NDArray[np.bool_]:
    """What a word sees: whatever any of its pieces does, if any of that one's."""
    width = max(unit) + 1
    result = np.zeros((width, width), dtype=bool)
    for i, a in enumerate(unit):
        for j, b in enumerate(unit):
            result[a, b] |= bool(seen[i, j])
    return result
