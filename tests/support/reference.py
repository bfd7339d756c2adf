"""Scores in plain loops, as DESIGN.md words them: slow, obvious, and written apart from the product."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
PATTERNS = ("next-word", "previous-word", "identical", "cross-sentence", "delimiter", "bag-of-words")


@dataclass(frozen=True)
class Written:
    """One input: its tokens, the sentence of each (0, 1, or -1 for special), nothing about padding."""

    tokens: Sequence[str]
    sentence: Sequence[int]

    @property
    def words(self) -> list[int]:
        return [i for i, sentence in enumerate(self.sentence) if sentence >= 0]

    def follows(self, i: int, step: int) -> Iterator[int]:
        if 0 <= i + step < len(self.tokens) and self.sentence[i + step] == self.sentence[i]:
            yield i + step

    def same(self, i: int) -> list[int]:
        if not any(c.isalnum() for c in self.tokens[i]):
            return []
        return [j for j in self.words if self.tokens[j].casefold() == self.tokens[i].casefold()]

    def keys(self, pattern: str, i: int) -> list[int]:
        """The target keys of word `i`; empty if it is not eligible."""
        if pattern == "next-word":
            return list(self.follows(i, 1))
        if pattern == "previous-word":
            return list(self.follows(i, -1))
        if pattern == "identical":
            return self.same(i) if len(self.same(i)) > 1 else []
        if pattern == "cross-sentence":
            return [j for j in self.same(i) if self.sentence[j] != self.sentence[i]]
        if pattern == "delimiter":
            return [j for j, sentence in enumerate(self.sentence) if sentence < 0]
        return [j for j in self.words if self.sentence[j] == self.sentence[i]]


def on_target(pattern: str, row: Sequence[float], keys: list[int]) -> float:
    """One eligible query's weight on target."""
    if pattern == "bag-of-words":
        return sum(min(row[j], 1 / len(keys)) for j in keys)
    return sum(row[j] for j in keys)


def scores(
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    words_only: bool = False,
    visible: Sequence[NDArray[np.bool_]] | None = None,
) -> dict[str, tuple[float, float, float, int, int]]:
    """One head's score, chance, standard error, n and pairs, by pattern.

    Shape: `weights` each [query, key]; `visible` likewise says which keys a query may see, all without it.
    """
    result = {}
    for pattern in PATTERNS:
        pairs = []
        for number, (one, matrix) in enumerate(zip(inputs, weights, strict=True)):
            seen = one.words if words_only else range(len(one.tokens))
            total, chance, n = 0.0, 0.0, 0
            for i in one.words:
                row = [matrix[i][j] if j in seen else 0.0 for j in range(len(one.tokens))]
                keys = [j for j in one.keys(pattern, i) if j in seen]
                if not keys or (words_only and sum(row) < 1e-6):
                    continue
                if words_only:
                    row = [weight / sum(row) for weight in row]
                open_to = [j for j in seen if visible is None or visible[number][i][j]]
                even = [1 / len(open_to) if j in open_to else 0.0 for j in range(len(one.tokens))]
                total += on_target(pattern, row, keys)
                chance += on_target(pattern, even, keys)
                n += 1
            if n:
                pairs.append((total, chance, n))
        n = sum(count for _, _, count in pairs)
        if not n:
            result[pattern] = (math.nan, math.nan, math.nan, 0, 0)
            continue
        score = sum(total for total, _, _ in pairs) / n
        spread = math.sqrt(sum((total - score * count) ** 2 for total, _, count in pairs)) / n
        se = spread if len(pairs) > 1 else math.nan
        result[pattern] = (score, sum(chance for _, chance, _ in pairs) / n, se, n, len(pairs))
    return result


def entropy(inputs: Sequence[Written], weights: Sequence[Matrix]) -> float:
    """Mean row entropy over all words, in nats."""
    rows = [matrix[i] for one, matrix in zip(inputs, weights, strict=True) for i in one.words]
    return float(np.mean([-sum(w * math.log(w) for w in row if w > 0) for row in rows]))
