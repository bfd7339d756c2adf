"""Every head's score on every pattern, and what it does: the pattern that it follows, else a habit.

Numpy, no torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, nearest
from attnscan.results.columns import (
    ALIGNMENT_COLUMNS,
    HEAD_COLUMNS,
    MEAN_COLUMNS,
    TableColumn,
)
from attnscan.results.grid import Grid, Head
from attnscan.results.intervals import score_interval
from attnscan.results.label_rules import RESTING, THRESHOLD, Scored
from attnscan.results.signature import AttentionView

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ScoreTable:
    """Every head's score on every pattern.

    Shape: each [..., layer, head, pattern]; NaN if no query was eligible.
    """

    score: FloatArray  # mean weight on target over all eligible queries, in [0, 1]
    chance: FloatArray
    """That mean, had every query spread its weight evenly over the keys it may see."""
    se: FloatArray  # standard error of the score, clustered by pair; NaN below two pairs
    n: IntArray  # eligible queries
    pairs: IntArray  # pairs that had any
    clusters: IntArray
    """What the errors are clustered by: distinct pairs that had any, blocks or groups of these."""
    effective_pairs: FloatArray
    """(Σn)² / Σn²: so many pairs, or blocks, with equally many queries would tell as much."""
    share: FloatArray
    """Of a pattern that is a part of a wider one: its part of that one's weight.

    Both are of the same queries."""
    self_mass: FloatArray
    """A word's weight on itself as part of the score; 0 of patterns that this alone may follow."""
    residual: FloatArray | None = None
    """What each pair, or block of many, adds to the error; None if not kept.

    Shape: [block, layer, head, pattern]."""

    @cached_property
    def above_chance(self) -> FloatArray:
        """(score - chance) / (1 - chance): 0 at chance, 1 at perfect; NaN where chance is 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            above = (self.score - self.chance) / (1 - self.chance)
        # Chance is of 32-bit weights: what is nearer to 1 than this is rounding
        return np.where(self.chance < 1 - 1e-6, above, np.nan)

    @cached_property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """The score's 95 % interval, within [0, 1]: by t, on the logit scale.

        NaN below two pairs.
        """
        return score_interval(self.score, self.se, self.clusters, self.effective_pairs)


@dataclass(frozen=True)
class Proportion:
    """A share of every head, with its error. Shape: each [layer, head]."""

    value: FloatArray  # in [0, 1]; NaN where there is nothing to divide by
    se: FloatArray  # standard error, clustered by pair; NaN below two pairs
    clusters: IntArray  # as in `ScoreTable`
    effective_pairs: FloatArray

    @cached_property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """The 95 % interval, as that of a score."""
        return score_interval(self.value, self.se, self.clusters, self.effective_pairs)


def best_first(values: FloatArray) -> IntArray:
    """The places of values, row by row, without those that are NaN.

    The largest comes first, and equals in their order.
    """
    order: IntArray = np.argsort(-values, axis=None, kind="stable")  # NaN comes last
    return order[: np.count_nonzero(~np.isnan(values))]


@dataclass(frozen=True)
class Scores:
    """The scores of every head of a model."""

    scored: tuple[Scored, ...]  # the patterns, in the order of every table
    every_key: ScoreTable  # with the weights as they are
    words_only: ScoreTable  # with special tokens removed, and rows renormalised over words
    means: Mapping[str, FloatArray]
    """Means over the rows of all words' weights, by the names of `MEAN_COLUMNS`.

    Shape: each [layer, head]."""
    grid: Grid  # the model's heads
    alignment: Mapping[str, Proportion] = field(default_factory=dict)
    """Of cross attention, how well heads align words: `coverage` of the source.

    Where gold links are known, also `precision`, `recall` and `aer`, the alignment error rate."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns' names."""
        return tuple(pattern.id for pattern in self.scored)

    def place_of(self, pattern: str) -> int:
        """Where a pattern stands in tables. Raises: OptionError if heads were not scored for it."""
        if pattern in self.patterns:
            return self.patterns.index(pattern)
        hint = nearest(pattern, self.patterns, f"there are {', '.join(self.patterns)}")
        raise OptionError(f"heads were not scored for a pattern {pattern!r}", hint)

    def table(self, words_only: bool) -> ScoreTable:
        """The scores with every key, or with words alone."""
        return self.words_only if words_only else self.every_key


def followed(scored: Sequence[Scored], table: ScoreTable, threshold: float) -> IntArray:
    """The pattern farthest above chance, which each head follows, by its place; -1 for none.

    Patterns of resting heads do not compete, and a pattern that excludes the word itself does not
    where more than two thirds of its score is the word itself. A pattern and its
    part have one place between them: it is the part's if that is farther above chance, or has two
    thirds of the whole's weight on its own queries.
    Shape: [..., layer, head].
    """
    names = [pattern.id for pattern in scored]
    above = np.fmax(table.above_chance, -np.inf)  # which NaN gives way to
    wider_of: dict[int, int] = {}
    for p, pattern in enumerate(scored):
        if pattern.excludes_self:
            above[..., p][table.self_mass[..., p] > 2 / 3 * table.score[..., p]] = -np.inf
        if pattern.id in RESTING:
            above[..., p] = -np.inf
        if pattern.part_of in names:
            wider_of[p] = names.index(pattern.part_of)
    is_part = {}
    for p, wider in wider_of.items():
        is_part[p] = (above[..., p] > above[..., wider]) | (table.share[..., p] >= 2 / 3)
    for p, wider in wider_of.items():
        above[..., wider] = np.maximum(above[..., wider], above[..., p])
        above[..., p] = -np.inf
    winner: IntArray = np.where(above.max(-1) >= threshold, above.argmax(-1), -1)
    for p, wider in wider_of.items():
        winner[(winner == wider) & is_part[p]] = p
    return winner


RESTING_SHARE = 0.5  # a head with more of its attention than this on special tokens rests there
RESAMPLINGS = 1_000
"""Bootstrap resamples of words or pairs, that show whether labels stay."""
STABLE_SHARE = 0.95
"""Share of resamples: with fewer a label has a `?`; a habit must hold in as many."""
MOST_HEADS = 4096
"""With more, it is not measured how sure labels are: it would take minutes, and gigabytes."""


class Habits(NamedTuple):
    """The habit of every head of a model, by one reading."""

    names: tuple[str, ...]
    share: FloatArray
    """Of a word's attention, in [0, 1]; NaN of a head without any attention.

    Shape: [layer, head, habit]."""
    chance: FloatArray
    """That under even attention; 0 for `even` and `same-keys`. Shape: [layer, head, habit]."""
    average: FloatArray  # the average head's. Shape: [habit]
    winner: IntArray
    """The habit that sets each head apart most, by its place, or -1. Shape: [layer, head]."""


class _Measured(NamedTuple):
    """The numbers of a pattern or a habit. Shape: arrays are [layer, head]."""

    share: FloatArray
    chance: FloatArray  # under even attention
    average: float  # the average head's


class Numbers(NamedTuple):
    """A head's number for a pattern or a habit, and what it stands beside."""

    share: float
    chance: float
    average: float
    rank: int


class HeadKind(NamedTuple):
    """A pattern or habit, the heads that have it, strongest first, and the average head."""

    name: str
    heads: tuple[Head, ...]
    average: float


class ClassShares(NamedTuple):
    """The mean share of a word's attention on each class of keys.

    Shape: arrays are [layer, head, class].
    """

    names: tuple[str, ...]
    share: FloatArray
    se: FloatArray  # NaN of one input's words
    chance: FloatArray  # the share of even attention
    clusters: IntArray
    """What the errors are clustered by: distinct pairs that have such words, blocks or groups."""


@dataclass(frozen=True)
class Labels:
    """What every head of a model does, by one reading of its attention.

    Shape: arrays are [layer, head].
    """

    scores: Scores  # what the labels are of
    reading: AttentionView
    threshold: float = THRESHOLD  # how far above chance a label's pattern must be
    habits: Habits | None = None  # the habits; None where they were not measured
    label_stability: FloatArray | None = None
    """Share of bootstrap resamples in which each head's label is the same.

    None if that was not measured.

    NaN where there is no label, or where it rests on too few units."""
    resampled: str = "pairs"  # what is resampled: `pairs`, or the `words` of one input
    units: int = 0  # how many of these there are
    groups: int = 0
    """How many groups of pairs are resampled, and in these pairs; 0 where there are no groups."""
    classes: ClassShares | None = None
    """Where attention goes, as a `Profile` has it; None where that was not kept."""

    @property
    def grid(self) -> Grid:
        """The heads."""
        return self.scores.grid

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.words_only)

    @cached_property
    def _pattern(self) -> NDArray[np.str_]:
        """The pattern that each head follows, or nothing."""
        place = followed(self.scores.scored, self.table, self.threshold)
        return np.array([*self.scores.patterns, ""])[place]

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Which heads follow a pattern."""
        return np.asarray(self._pattern != "")

    @cached_property
    def among_words(self) -> NDArray[np.str_]:
        """The pattern that each head follows, else its habit, else nothing."""
        if self.habits is None:
            return self._pattern
        habit = np.array([*self.habits.names, ""])[self.habits.winner]
        return np.where(self.follows, self._pattern, habit)

    @cached_property
    def _resting_place(self) -> NDArray[np.str_]:
        """The pattern that each head rests by, or nothing."""
        return np.array([*self.scores.patterns, ""])[resting_on(self.table, self.scores.patterns)]

    @property
    def rests(self) -> NDArray[np.bool_]:
        """Which heads give more than half of all words' attention to one resting place."""
        return np.asarray(self._resting_place != "")

    @cached_property
    def label(self) -> NDArray[np.str_]:
        """What a head rests on, as `delimiter`, else `among_words`."""
        return np.where(self.rests, self._resting_place, self.among_words)

    @property
    def label_stays(self) -> FloatArray:
        """The share of resamples in which each label stays; NaN where that was not measured."""
        if self.label_stability is None:
            return np.full(self.grid.shape, np.nan)
        return self.label_stability

    @cached_property
    def unsure(self) -> NDArray[np.bool_]:
        """Which heads' labels changed in more than 5 % of resamples, or rest on too little."""
        if self.label_stability is None:
            return np.zeros(self.grid.shape, bool)
        is_sure = self.label_stability >= STABLE_SHARE  # false for NaN
        return np.asarray(~is_sure & (self.label != ""))

    @cached_property
    def _measured(self) -> dict[str, _Measured]:
        """Each pattern and habit by its name; a pattern's numbers where both have one."""
        measured: dict[str, _Measured] = {}
        if self.habits is not None:
            for p, name in enumerate(self.habits.names):
                measured[name] = _Measured(
                    share=self.habits.share[..., p],
                    chance=self.habits.chance[..., p],
                    average=float(self.habits.average[p]),
                )
        for p, name in enumerate(self.scores.patterns):
            score = self.table.score[..., p]
            measured[name] = _Measured(
                share=score,
                chance=np.broadcast_to(self.table.chance[..., p], score.shape),
                average=np.nan if np.isnan(score).all() else float(np.nanmean(score)),
            )
        return measured

    @cached_property
    def share(self) -> FloatArray:
        """The number that goes with `among_words`: a pattern's score, or a habit's share."""
        return self._value_of_label([measured.share for measured in self._measured.values()])

    @cached_property
    def average(self) -> FloatArray:
        """The average head's number for it."""
        return self._value_of_label([measured.average for measured in self._measured.values()])

    def _value_of_label(self, values: Sequence[FloatArray | float]) -> FloatArray:
        """Each head's value, of one for each pattern and habit; NaN where it has none of them."""
        return np.select([self.among_words == name for name in self._measured], values, np.nan)

    def numbers(self, name: str, head: Head) -> Numbers:
        """A head's number for a pattern or habit, and what it stands beside."""
        measured = self._measured[name]
        share = float(measured.share[head.place])
        return Numbers(
            share=share,
            chance=float(measured.chance[head.place]),
            average=measured.average,
            rank=1 + int((measured.share > share).sum()),
        )

    def nearest_pattern(self, head: Head) -> str:
        """The pattern that a head follows, else the one by which it is farthest above chance."""
        above = np.nan_to_num(self.table.above_chance[head.place], nan=-np.inf)
        return str(self._pattern[head.place]) or self.scores.patterns[int(above.round(6).argmax())]

    @cached_property
    def kinds(self) -> dict[str, HeadKind]:
        """The patterns and habits that some head has among words, most heads first, by name."""
        kinds = [self._kind(name, self.among_words == name) for name in self._measured]
        kinds.sort(key=lambda kind: -len(kind.heads))
        return {kind.name: kind for kind in kinds if kind.heads}

    @property
    def resting(self) -> list[HeadKind]:
        """The heads that rest, by what they rest on, those that rest most first."""
        kinds = [self._kind(name, self._resting_place == name) for name in RESTING]
        return [kind for kind in kinds if kind.heads]

    def _kind(self, name: str, has: NDArray[np.bool_]) -> HeadKind:
        """A pattern or habit with the heads that have it."""
        measured = self._measured.get(name)
        if measured is None:  # of a resting place that heads were not scored for: none has it
            return HeadKind(name, heads=(), average=np.nan)
        numbers = best_first(np.where(has, measured.share, np.nan))
        heads = tuple(self.grid[number] for number in numbers)
        return HeadKind(name, heads, measured.average)

    @property
    def is_one_input(self) -> bool:
        """Whether they are of one input, and not of many pairs."""
        return self.resampled == "words"

    @property
    def columns_behind(self) -> tuple[TableColumn, ...]:
        """The columns of tables behind the patterns' scores: those of which there are values."""
        alignment = [column for column in ALIGNMENT_COLUMNS if column.values(self) is not None]
        return (*MEAN_COLUMNS, *alignment)

    def columns(self, patterns: Sequence[str]) -> dict[str, Any]:
        """The columns of the table with a row a head: its name, what it does, scores, means.

        Shape: [head] each.
        """
        columns: dict[str, FloatArray | NDArray[np.str_]] = {}
        for column in HEAD_COLUMNS:
            columns[column.name] = column.values(self)
        for name in patterns:
            columns[name] = self.table.score[..., self.scores.place_of(name)]
        for column in self.columns_behind:
            columns[column.name] = column.values(self)
        flat = {name: values.ravel() for name, values in columns.items()}
        return self.grid.columns(with_names=True) | flat


def resting_on(table: ScoreTable, patterns: Sequence[str]) -> IntArray:
    """What each head rests on, by its place among `patterns`; -1 for nothing.

    The first of `RESTING` with more than half of its attention.
    """
    place = np.full(table.score.shape[:-1], -1)
    for name in RESTING[::-1]:
        if name in patterns:
            p = patterns.index(name)
            place[table.score[..., p] > RESTING_SHARE] = p  # false for NaN
    return place
