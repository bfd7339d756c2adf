"""Scores as frozen tables: every head on every pattern, its labels by them. Numpy, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, nearest
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.intervals import score_interval
from attnscan.results.shown import shaped
from attnscan.results.terms import Scored

MIXED = "mixed"
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ScoreTable:
    """Every head's score on every pattern. Shape: each [..., layer, head, pattern]; NaN if no query was eligible."""

    __repr__ = shaped

    score: FloatArray
    """Mean weight on target over all eligible queries, in [0, 1]."""
    chance: FloatArray
    """That mean, had every query spread its weight evenly over the keys it may see."""
    se: FloatArray
    """Standard error of the score, clustered by pair; NaN below two pairs."""
    n: IntArray
    """Eligible queries."""
    pairs: IntArray
    """Pairs that had any."""
    effective_pairs: FloatArray
    """So many pairs of one size would tell as much: (Σn)² / Σn², n being a pair's eligible queries; NaN without one."""
    share: FloatArray
    """For a pattern that is a part of a wider one: its part of that one's weight, on the same queries."""
    itself: FloatArray
    """How much of the score is a word's weight on itself."""
    se_between: FloatArray | None = None
    """Standard error of the difference between any two heads' scores, paired; None if it was not kept.

    Shape: [pattern, layer x head, layer x head]."""
    share_chance: FloatArray | None = None
    """What `share` would be by even attention; None in tables for labels alone."""

    @cached_property
    def above_chance(self) -> FloatArray:
        """(score - chance) / (1 - chance): 0 at chance, 1 at perfect; NaN where chance is 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            above = (self.score - self.chance) / (1 - self.chance)
        return np.where(self.chance < 1 - 1e-9, above, np.nan)

    @cached_property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """The score's 95 % interval, within [0, 1]: by t, on the logit scale. NaN below two pairs."""
        return score_interval(self.score, self.se, self.pairs, self.effective_pairs)

    def ranked(self, pattern: int) -> IntArray:
        """The numbers of the heads that have a score on a pattern, best first. Shape: [ranked head]."""
        return best_first(self.score[..., pattern])


def best_first(values: FloatArray) -> IntArray:
    """Where the largest value is, where the next one is, and so on, without those that are NaN; equals in their order.

    >>> best_first(np.array([[0.5, np.nan], [0.7, 0.5]])).tolist()
    [2, 0, 3]

    Shape: any -> [number], places counted row by row.
    """
    order: IntArray = np.argsort(-values, axis=None, kind="stable")  # NaN comes last
    return order[: np.count_nonzero(~np.isnan(values))]


class PatternNames(tuple[str, ...]):
    """The names of the patterns that heads were scored for."""

    __slots__ = ()

    def index(self, name: Any, *bounds: Any) -> int:
        """A name's place. Raises: OptionError if heads were not scored for it."""
        if name not in self:
            hint = nearest(str(name), self, f"there are {', '.join(self)}")
            raise OptionError(f"heads were not scored for a pattern {name!r}", hint)
        return super().index(name, *bounds)


@dataclass(frozen=True)
class Scores:
    """The scores of every head of a model."""

    __repr__ = shaped

    scored: tuple[Scored, ...]
    """The patterns, in the order of every table."""
    every_key: ScoreTable
    """With the weights as they are."""
    words_only: ScoreTable
    """What each head does otherwise: weights on special tokens removed, rows renormalised over words."""
    entropy: FloatArray
    """Mean row entropy of all words' weights, in nats. Shape: [layer, head]."""
    kind: AttentionKind = AttentionKind.ONLY
    """Of which attention heads are."""

    @property
    def patterns(self) -> PatternNames:
        """The patterns' names."""
        return PatternNames(pattern.id for pattern in self.scored)

    @property
    def grid(self) -> Grid:
        """The model's heads."""
        return Grid(((self.kind, *self.entropy.shape),))

    def table(self, without_delimiters: bool) -> ScoreTable:
        """The scores with every key, or with words alone."""
        return self.words_only if without_delimiters else self.every_key

    def ranked_labels(self, table: ScoreTable, rank: int, threshold: float) -> NDArray[np.str_]:
        """The pattern that each head follows most (rank 0) or next (rank 1), or `mixed`; see `Race`.

        Shape: [..., layer, head], as the table has it.
        """
        labels: NDArray[np.str_] = np.asarray([*self.patterns, MIXED])[
            Race(self.scored, table).winners(rank, threshold)
        ]
        return labels


class Race:
    """How patterns compete for the heads of a table: by how far they are above chance.

    A pattern and its part have one place between them: it is the part's if that is farther above chance, or has two
    thirds of the whole's weight on its own queries. A pattern that is of others does not compete where more than two
    thirds of its score is the word itself.
    """

    def __init__(self, scored: Sequence[Scored], table: ScoreTable) -> None:
        names = [pattern.id for pattern in scored]
        above = np.fmax(table.above_chance, -np.inf)  # which NaN gives way to
        for p, pattern in enumerate(scored):
            if pattern.of_others:
                above[..., p][table.itself[..., p] > 2 / 3 * table.score[..., p]] = -np.inf
        self._parts: list[tuple[int, int, NDArray[np.bool_]]] = []
        """A pattern, a part of it, and where their place is the part's."""
        self._by_share: list[NDArray[np.bool_]] = []
        """Of each of these, where the part's share of the whole's weight says whose their place is."""
        for p, pattern in enumerate(scored):
            if pattern.part_of in names:
                whole = names.index(pattern.part_of)
                farther = above[..., p] > above[..., whole]
                self._parts.append((whole, p, farther | (table.share[..., p] >= 2 / 3)))
                self._by_share.append(~farther & np.isfinite(table.share[..., p]))
                above[..., whole] = np.maximum(above[..., whole], above[..., p])
        for _, part, _ in self._parts:
            above[..., part] = -np.inf
        self._above, self._places = above, len(scored) - len(self._parts)

    @cached_property
    def _order(self) -> IntArray:
        """The patterns that have a place, the best first; then those that have none."""
        return np.argsort(-self._above, axis=-1, kind="stable")

    @cached_property
    def above(self) -> FloatArray:
        """How far above chance each place is, the best first; -inf for what does not compete. Shape: [..., place]."""
        return np.take_along_axis(self._above, self._order, axis=-1)[..., : self._places]

    def winners(self, rank: int, threshold: float) -> IntArray:
        """The pattern of some rank by its place among all; -1 for `mixed`. Shape: [..., layer, head]."""
        if rank >= self._places:
            return np.full(self._above.shape[:-1], -1)
        above, place = (self.above[..., rank], self._order[..., rank]) if rank else self._best()
        winners = place.copy()
        for whole, part, is_parts in self._parts:
            winners[(place == whole) & is_parts] = part
        winners[~(above >= threshold)] = -1
        return winners

    def decided_by_share(self, rank: int, threshold: float) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
        """A pattern, a part of it, and of which heads the part's share says which of the two has a rank.

        Shape: [..., layer, head].
        """
        winners = self.winners(rank, threshold)
        for (whole, part, _), by_share in zip(self._parts, self._by_share, strict=True):
            yield whole, part, by_share & ((winners == whole) | (winners == part))

    def _best(self) -> tuple[FloatArray, IntArray]:
        """The first in that order, without it: that would take longer than all else."""
        best = self._above[..., 0].copy()
        place = np.zeros(best.shape, dtype=np.int64)
        for p in range(1, self._above.shape[-1]):
            better = self._above[..., p] > best
            np.copyto(best, self._above[..., p], where=better)
            place[better] = p
        return best, place

    @property
    def best(self) -> FloatArray:
        """How far above chance the best is; NaN where none competes. Shape: [..., layer, head]."""
        if not self.above.shape[-1]:
            return np.full(self.above.shape[:-1], np.nan)
        best = self.above[..., 0]
        return np.where(np.isfinite(best), best, np.nan)

    @property
    def margin(self) -> FloatArray:
        """How much farther above chance the best is than the next; NaN where fewer than two compete."""
        if self.above.shape[-1] < 2:
            return np.full(self.above.shape[:-1], np.nan)
        with np.errstate(invalid="ignore"):
            margin: FloatArray = self.above[..., 0] - self.above[..., 1]
        return np.where(np.isfinite(margin), margin, np.nan)
