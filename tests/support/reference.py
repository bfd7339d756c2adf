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

    def keys(self, pattern: str, i: int, seen: Sequence[int]) -> list[int]:
        """The target keys of word `i` among those that it may see; empty if it is not eligible."""
        if pattern == "next-word":
            keys = list(self.follows(i, 1))
        elif pattern == "previous-word":
            keys = list(self.follows(i, -1))
        elif pattern == "identical":
            keys = self.same(i) if any(j in seen for j in self.same(i) if j != i) else []
        elif pattern == "cross-sentence":
            keys = [j for j in self.same(i) if self.sentence[j] != self.sentence[i]]
        elif pattern == "delimiter":
            keys = [j for j, sentence in enumerate(self.sentence) if sentence < 0]
        else:
            keys = [j for j in self.words if self.sentence[j] == self.sentence[i]]
        return [j for j in keys if j in seen]


def on_target(pattern: str, row: Sequence[float], keys: list[int], of: Sequence[int]) -> float:
    """One eligible query's weight on those of its target keys that are among some keys."""
    keys, n = [j for j in keys if j in of], len(keys)
    if pattern == "bag-of-words":
        return sum(min(row[j], 1 / n) for j in keys)
    return sum(row[j] for j in keys)


def scores(
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    words_only: bool = False,
    visible: Sequence[NDArray[np.bool_]] | None = None,
) -> dict[str, tuple[float, float, float, int, int, float]]:
    """One head's score, chance, standard error, n, pairs and how much of the score is the word itself, by pattern.

    Shape: `weights` each [query, key]; `visible` likewise says which keys a query may see, all without it.
    """
    result = {}
    for pattern in PATTERNS:
        pairs, itself = [], 0.0
        for number, (one, matrix) in enumerate(zip(inputs, weights, strict=True)):
            of_words = words_only and pattern != "delimiter"  # which is of all keys by every reading
            counted = one.words if of_words else range(len(one.tokens))
            total, chance, n = 0.0, 0.0, 0
            for i, open_to, row, even in _rows(one, matrix, None if visible is None else visible[number], counted):
                keys = one.keys(pattern, i, open_to)
                if not any(j in counted for j in keys):
                    continue
                total += on_target(pattern, row, keys, counted)
                chance += on_target(pattern, even, keys, counted)
                itself += on_target(pattern, row, keys, [i])
                n += 1
            if n:
                pairs.append((total, chance, n))
        n = sum(count for _, _, count in pairs)
        if not n:
            result[pattern] = (math.nan, math.nan, math.nan, 0, 0, math.nan)
            continue
        score = sum(total for total, _, _ in pairs) / n
        spread = math.sqrt(sum((total - score * count) ** 2 for total, _, count in pairs)) / n
        se = spread * math.sqrt(len(pairs) / (len(pairs) - 1)) if len(pairs) > 1 else math.nan
        result[pattern] = (score, sum(chance for _, chance, _ in pairs) / n, se, n, len(pairs), itself / n)
    return result


def _rows(
    one: Written, matrix: Matrix, visible: NDArray[np.bool_] | None, counted: Sequence[int]
) -> Iterator[tuple[int, list[int], list[float], list[float]]]:
    """Each word that has weight on what is counted, the keys it may see, its weights there, and even ones."""
    places = range(len(one.tokens))
    for i in one.words:
        open_to = [j for j in places if visible is None or visible[i][j]]
        row = [matrix[i][j] if j in counted else 0.0 for j in places]
        if len(counted) < len(places):
            if sum(row) < 1e-6:
                continue
            row = [weight / sum(row) for weight in row]
        evenly = [j for j in open_to if j in counted]
        yield i, open_to, row, [1 / len(evenly) if j in evenly else 0.0 for j in places]


def cross_share(
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    words_only: bool = False,
    visible: Sequence[NDArray[np.bool_]] | None = None,
) -> tuple[float, float]:
    """What of one head's weight on identical words lies in the other sentence, and what of even attention's would.

    Of queries with an identical word there.
    """
    across, all_over = np.zeros(2), np.zeros(2)
    for number, (one, matrix) in enumerate(zip(inputs, weights, strict=True)):
        counted = one.words if words_only else range(len(one.tokens))
        for i, open_to, *rows in _rows(one, matrix, None if visible is None else visible[number], counted):
            keys = [one.keys(pattern, i, open_to) for pattern in ("cross-sentence", "identical")]
            if keys[0]:
                across += [sum(row[j] for j in keys[0]) for row in rows]
                all_over += [sum(row[j] for j in keys[1]) for row in rows]
    share, chance = across / np.where(all_over > 0, all_over, np.nan)
    return float(share), float(chance)


def entropy(inputs: Sequence[Written], weights: Sequence[Matrix]) -> float:
    """Mean row entropy over all words, in nats."""
    rows = [matrix[i] for one, matrix in zip(inputs, weights, strict=True) for i in one.words]
    return float(np.mean([-sum(w * math.log(w) for w in row if w > 0) for row in rows]))
