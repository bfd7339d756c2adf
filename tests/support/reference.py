"""Scores of inputs that are written out, by the plain loops of `benchmarks/by_loops.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import by_loops
import numpy as np
from by_loops import Input, Score, added, by_query, targets
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
PATTERNS = tuple(pattern for pattern in by_loops.PATTERNS if pattern != "predictive")


@dataclass(frozen=True)
class Written:
    """One input: its tokens, the sentence of each (0, 1, or -1 for special), nothing about padding."""

    tokens: Sequence[str]
    sentence: Sequence[int]

    def seeing(self, visible: NDArray[np.bool_] | None) -> Input:
        """What the loops read; `visible` says which keys a query may see, all without it. Shape: [query, key]."""
        places = range(len(self.tokens))
        return Input(
            inputs={},
            sentence=list(self.sentence),
            text=[token.casefold() for token in self.tokens],
            content=[
                s >= 0 and any(map(str.isalnum, token)) for token, s in zip(self.tokens, self.sentence, strict=True)
            ],
            visible=[[visible is None or bool(visible[i][j]) for j in places] for i in places],
            pieces=[[i] for i in places],
        )


def of_pairs(
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    words_only: bool = False,
    visible: Sequence[NDArray[np.bool_]] | None = None,
) -> dict[str, Score]:
    """One head's sums over some inputs, pattern by pattern. Shape: `weights` each [query, key]."""
    found = []
    for one, matrix, seen in zip(inputs, weights, visible or [None] * len(inputs), strict=True):
        written = one.seeing(seen)
        queries = by_query(written, np.asarray(matrix).tolist(), targets(written), "out" if words_only else "in")
        found.append({pattern: added(list(queries[pattern].values())) for pattern in PATTERNS})
    return {pattern: Score([own[pattern] for own in found]) for pattern in PATTERNS}


def scores(
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    words_only: bool = False,
    visible: Sequence[NDArray[np.bool_]] | None = None,
) -> dict[str, tuple[float, float, float, float, int, float]]:
    """One head's score, chance, standard error, n, pairs and how much of the score is the word itself, by pattern."""
    found = of_pairs(inputs, weights, words_only=words_only, visible=visible)
    return {p: (s.mean(), s.mean("chance"), s.se, s.n, s.pairs, s.mean("itself")) for p, s in found.items()}


def entropy(inputs: Sequence[Written], weights: Sequence[Matrix]) -> float:
    """Mean row entropy over all words, in nats."""
    pairs = zip(inputs, weights, strict=True)
    rows = [matrix[i] for one, matrix in pairs for i, sentence in enumerate(one.sentence) if sentence >= 0]
    return float(np.mean([-sum(w * math.log(w) for w in row if w > 0) for row in rows]))
