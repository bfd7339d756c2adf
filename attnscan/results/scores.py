"""Every head's score on every pattern, and the pattern that it follows. Numpy, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, nearest
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.intervals import score_interval
from attnscan.results.terms import RESTING, Scored

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ScoreTable:
    """Every head's score on every pattern. Shape: each [..., layer, head, pattern]; NaN if no query was eligible."""

    score: FloatArray  # mean weight on target over all eligible queries, in [0, 1]
    chance: FloatArray  # that mean, had every query spread its weight evenly over the keys it may see
    se: FloatArray  # standard error of the score, clustered by pair; NaN below two pairs
    n: IntArray  # eligible queries
    pairs: IntArray  # pairs that had any
    effective_pairs: FloatArray  # (Σn)² / Σn²: so many pairs, or blocks, with equally many queries would tell as much
    share: FloatArray  # for a pattern that is a part of a wider one: its part of that one's weight, on the same queries
    itself: FloatArray  # a word's weight on itself as part of the score; 0 of patterns that this alone may follow
    residual: FloatArray | None = None
    """What each pair, or block of many, adds to the error; None if not kept. Shape: [block, layer, head, pattern]."""

    @cached_property
    def above_chance(self) -> FloatArray:
        """(score - chance) / (1 - chance): 0 at chance, 1 at perfect; NaN where chance is 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            above = (self.score - self.chance) / (1 - self.chance)
        return np.where(self.chance < 1 - 1e-6, above, np.nan)  # of 32-bit weights: nearer is rounding

    @cached_property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """The score's 95 % interval, within [0, 1]: by t, on the logit scale. NaN below two pairs."""
        return score_interval(self.score, self.se, self.pairs, self.effective_pairs)


def best_first(values: FloatArray) -> IntArray:
    """The places of values, row by row, largest first and equals in their order, without those that are NaN."""
    order: IntArray = np.argsort(-values, axis=None, kind="stable")  # NaN comes last
    return order[: np.count_nonzero(~np.isnan(values))]


@dataclass(frozen=True)
class Scores:
    """The scores of every head of a model."""

    scored: tuple[Scored, ...]  # the patterns, in the order of every table
    every_key: ScoreTable  # with the weights as they are
    words_only: ScoreTable  # with weights on special tokens removed, and rows renormalised over words
    entropy: FloatArray  # mean row entropy of all words' weights, in nats. Shape: [layer, head]
    kind: AttentionKind = AttentionKind.ONLY
    layers: tuple[int, ...] = ()  # the numbers that layers have in the model; empty where every layer has attention

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns' names."""
        return tuple(pattern.id for pattern in self.scored)

    @cached_property
    def grid(self) -> Grid:
        """The model's heads."""
        return Grid.of(self.entropy, self.kind, self.layers)

    def place_of(self, pattern: str) -> int:
        """Where a pattern stands in tables. Raises: OptionError if heads were not scored for it."""
        if pattern in self.patterns:
            return self.patterns.index(pattern)
        hint = nearest(pattern, self.patterns, f"there are {', '.join(self.patterns)}")
        raise OptionError(f"heads were not scored for a pattern {pattern!r}", hint)

    def table(self, among_words: bool) -> ScoreTable:
        """The scores with every key, or with words alone."""
        return self.words_only if among_words else self.every_key


def followed(scored: Sequence[Scored], table: ScoreTable, threshold: float, *, among_words: bool) -> IntArray:
    """The pattern that each head of a table follows, by its place; -1 for none: the one farthest above chance.

    Among words, patterns of resting heads do not compete. A pattern and its part have one place between them: it is the
    part's if that is farther above chance, or has two thirds of the whole's weight on its own queries. A pattern that
    is of others does not compete where more than two thirds of its score is the word itself.
    Shape: [..., layer, head].
    """
    names = [pattern.id for pattern in scored]
    above = np.fmax(table.above_chance, -np.inf)  # which NaN gives way to
    for p, pattern in enumerate(scored):
        if pattern.of_others:
            above[..., p][table.itself[..., p] > 2 / 3 * table.score[..., p]] = -np.inf
        if among_words and pattern.id in RESTING:
            above[..., p] = -np.inf
    parts = {p: names.index(pattern.part_of) for p, pattern in enumerate(scored) if pattern.part_of in names}
    is_part = {p: (above[..., p] > above[..., whole]) | (table.share[..., p] >= 2 / 3) for p, whole in parts.items()}
    for p, whole in parts.items():
        above[..., whole] = np.maximum(above[..., whole], above[..., p])
        above[..., p] = -np.inf
    winner: IntArray = np.where(above.max(-1) >= threshold, above.argmax(-1), -1)
    for p, whole in parts.items():
        winner[(winner == whole) & is_part[p]] = p
    return winner
