"""What every head does, by one reading: the pattern that it follows, else the habit that sets it apart, else nothing.

Habits tell each head from the average head of the same model. Every word's attention is divided into classes of keys.
A habit is a union of classes, such as the next three words. Numpy, no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.grid import Grid, Head
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable, best_first
from attnscan.results.shown import shaped
from attnscan.results.signature import Reading
from attnscan.results.terms import DELIMITER, RESTING, THRESHOLD

CLASSES = tuple(
    "start middle end itself identical cross-sentence next previous next-2-3 previous-2-3 punctuation next-4-8 "  # noqa: SIM905
    "previous-4-8 later earlier elsewhere".split()
)
"""Where a word's attention goes; a key is of the first that fits. `elsewhere` is the rest of the other sentence."""
FREQUENT, RARE, EVEN, SAME_KEYS = range(len(CLASSES), len(CLASSES) + 4)
"""The other columns that are summed: attention on frequent and on rare words, and what two rows have in common with it:
an even one, and the mean row of the input's other words."""
COLUMNS = len(CLASSES) + 4

MARGIN = 0.10
"""How far a head must be above the average head, and above even attention, for a habit."""
LEVEL = 0.025
"""How often, over all heads and habits together, chance alone may put a head above one of the two."""
RESTS = 0.5
"""A head with more of its attention than this on special tokens rests there."""
RESAMPLINGS = 1_000
"""How many bootstrap resamples of an input's words, or of a corpus's pairs, show whether labels stay."""
FEWEST = 5
"""A label that rests on fewer words or pairs says nothing of whether it would stay."""
MOST_HEADS = 4096
"""Of a model with more, how sure labels are is not measured: it would take minutes, and gigabytes."""
STAYS = 0.95
"""A label that stays in fewer of the bootstrap resamples has a `?`. A habit counts if its differences hold in this
share of them."""


def _classes(names: str) -> tuple[int, ...]:
    return tuple(map(CLASSES.index, names.split()))


_AFTER, _BEFORE = "next next-2-3 next-4-8 later", "previous previous-2-3 previous-4-8 earlier"
SPECIAL_HABITS = {
    "start": _classes("start"),
    "middle": _classes("middle"),
    "end": _classes("end"),
    DELIMITER: _classes("start middle end"),
}
"""Those of special tokens, which there are only where these are keys."""
HABITS = {
    "itself": _classes("itself"),
    "identical": _classes("identical"),
    "cross-sentence": _classes("cross-sentence"),
    "next-word": _classes("next"),
    "next-3": _classes("next next-2-3"),
    "next-8": _classes("next next-2-3 next-4-8"),
    "previous-word": _classes("previous"),
    "previous-3": _classes("previous previous-2-3"),
    "previous-8": _classes("previous previous-2-3 previous-4-8"),
    "within-1": _classes("next previous"),
    "within-3": _classes("next next-2-3 previous previous-2-3"),
    "after": _classes(_AFTER),
    "before": _classes(_BEFORE),
    "punctuation": _classes("punctuation"),
    "own-sentence": _classes(f"itself identical {_AFTER} {_BEFORE}"),
    "other-sentence": _classes("cross-sentence elsewhere"),
    "frequent-words": (FREQUENT,),
    "rare-words": (RARE,),
    **SPECIAL_HABITS,
    "even": (EVEN,),
    "same-keys": (SAME_KEYS,),
}
"""What may set a head apart from the average head, by its name in every table, and the columns that it is the sum of.
It has the name of a pattern where it means the same keys."""


@dataclass(frozen=True)
class Statements:
    """The habit of every head of a model, by one reading."""

    __repr__ = shaped

    names: tuple[str, ...]
    """The habits that were looked for."""
    share: FloatArray
    """Mean share of a word's attention, in [0, 1]; NaN of a head without any. Shape: [layer, head, habit]."""
    chance: FloatArray
    """That under even attention; 0 for `even` and `same-keys`. Shape: [layer, head, habit]."""
    average: FloatArray
    """The mean share over all heads: the average head's. Shape: [habit]."""
    winner: IntArray
    """The habit that sets each head apart most, by its place among `names`; -1 where none does surely.

    Shape: [layer, head]."""

    @property
    def named(self) -> NDArray[np.str_]:
        """The habit of each head by its name; empty for none. Shape: [layer, head]."""
        return np.array([*self.names, ""])[self.winner]


@dataclass(frozen=True)
class ClassShares:
    """Where the attention of every head's words goes. Shape: [layer, head, class] each; NaN without such words."""

    __repr__ = shaped

    names: tuple[str, ...]
    """Words by class, then patterns of one's own, which overlap the classes, then special tokens."""
    share: FloatArray
    """Mean share of a word's attention, in [0, 1]: of the reading's; on special tokens, of all attention."""
    se: FloatArray
    """Its standard error, clustered by pair; NaN of one input."""
    chance: FloatArray
    """The share under even attention."""


@dataclass(frozen=True)
class Numbers:
    """What a head's number for a pattern or a habit stands beside."""

    share: float
    """The head's own: a pattern's score, or a habit's share of attention, in [0, 1]."""
    chance: float
    """That under even attention."""
    average: float
    """That of the average head."""
    rank: int
    """The head's rank among all heads, from 1."""


@dataclass(frozen=True)
class Kind:
    """A pattern or habit, and the heads that have it."""

    name: str
    """As in the column `among_words`."""
    heads: tuple[Head, ...]
    """Those that have it, strongest first."""
    average: float
    """The average head's number, in [0, 1]."""


@dataclass(frozen=True)
class Labels:
    """What every head of a model does, by one reading of its attention."""

    __repr__ = shaped

    scores: Scores
    """What the labels are of."""
    reading: Reading
    """By weight or by what heads carry, with special tokens in or out."""
    threshold: float = THRESHOLD
    """How far above chance a label's pattern must be."""
    statements: Statements | None = None
    """The habits; None where they were not measured, and a head that follows no pattern has no label."""
    stays: FloatArray | None = field(default=None, repr=False)
    """Share of bootstrap resamples in which each head's label is the same; NaN where there is no label, or where it
    rests on fewer than `FEWEST` units. None if that was not measured. Shape: [layer, head]."""
    drawn: str = "pairs"
    """What is resampled: `pairs`, or the `words` of one input."""
    units: int = 0
    """How many of these there are."""
    classes: ClassShares | None = None
    """Where attention goes, class by class; None where that was not measured."""

    @property
    def grid(self) -> Grid:
        """The heads."""
        return self.scores.grid

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.among_words)

    @cached_property
    def _followed(self) -> IntArray:
        """The pattern that each head follows, by its place; -1 for none. Shape: [layer, head]."""
        return self.scores.followed(self.threshold, among_words=self.reading.among_words)

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Which heads follow a pattern. Shape: [layer, head]."""
        follows: NDArray[np.bool_] = self._followed >= 0
        return follows

    @cached_property
    def among_words(self) -> NDArray[np.str_]:
        """The pattern that each head follows, else its habit, else nothing. Shape: [layer, head]."""
        habits = np.full(self.grid.shape, "") if self.statements is None else self.statements.named
        patterns = np.array([*self.scores.patterns, ""])[self._followed]
        return np.where(self.follows, patterns, habits)

    @cached_property
    def rests(self) -> NDArray[np.bool_]:
        """Which heads give more than half of all words' attention to one resting place. Shape: [layer, head]."""
        rests: NDArray[np.bool_] = self._rests_on >= 0
        return rests

    @cached_property
    def _rests_on(self) -> IntArray:
        """The pattern that each head rests by, by its place; -1 for none. Shape: [layer, head]."""
        return resting_on(self.table, self.scores.patterns)

    @cached_property
    def label(self) -> NDArray[np.str_]:
        """What a head rests on, as `delimiter`, else `among_words`. Shape: [layer, head]."""
        return np.where(self.rests, np.array([*self.scores.patterns, ""])[self._rests_on], self.among_words)

    @cached_property
    def unsure(self) -> NDArray[np.bool_]:
        """Which heads' labels changed in more than 5 % of resamples, or rest on too little. Shape: [layer, head]."""
        if self.stays is None:
            return np.zeros(self.grid.shape, dtype=bool)
        unsure: NDArray[np.bool_] = ~(self.stays >= STAYS) & (self.label != "")
        return unsure

    @cached_property
    def _measured(self) -> dict[str, tuple[FloatArray, FloatArray, float]]:
        """Of each pattern and habit every head's number, chance and the average head's; a pattern's where both are."""
        measured: dict[str, tuple[FloatArray, FloatArray, float]] = {}
        if (habits := self.statements) is not None:
            for p, name in enumerate(habits.names):
                measured[name] = habits.share[..., p], habits.chance[..., p], float(habits.average[p])
        for p, name in enumerate(self.scores.patterns):
            score = self.table.score[..., p]
            average = np.nan if np.isnan(score).all() else float(np.nanmean(score))
            measured[name] = score, np.broadcast_to(self.table.chance[..., p], score.shape), average
        return measured

    @cached_property
    def share(self) -> FloatArray:
        """The number that goes with `among_words`: a pattern's score, or a habit's share of attention.

        Shape: [layer, head], in [0, 1]; NaN where there is none.
        """
        share = np.full(self.grid.shape, np.nan)
        for name, (values, _, _) in self._measured.items():
            share = np.where(self.among_words == name, values, share)
        return share

    @property
    def average(self) -> FloatArray:
        """The average head's number for it. Shape: [layer, head]."""
        names = self.among_words.ravel().tolist()
        return np.array([self._measured[name][2] if name else np.nan for name in names]).reshape(self.grid.shape)

    def numbers(self, name: str, head: Head) -> Numbers:
        """A head's number for a pattern or habit, and what it stands beside."""
        share, chance, average = self._measured[name]
        own = float(share[head.place])
        return Numbers(own, float(chance[head.place]), average, 1 + int((share > own).sum()))

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The patterns and habits that some head has among words, by name, those of most heads first."""
        kinds = [self._kind(name, self.among_words == name) for name in self._measured]
        return {kind.name: kind for kind in sorted(kinds, key=lambda kind: -len(kind.heads)) if kind.heads}

    @property
    def resting(self) -> list[Kind]:
        """The heads that rest, by what they rest on, those that rest most first."""
        kinds = [self._kind(name, self.rests & (self.label == name)) for name in RESTING]
        return [kind for kind in kinds if kind.heads]

    def _kind(self, name: str, has: NDArray[np.bool_]) -> Kind:
        if name not in self._measured:
            return Kind(name, (), np.nan)
        share, _, average = self._measured[name]
        return Kind(name, tuple(self.grid[number] for number in best_first(np.where(has, share, np.nan))), average)

    def columns(self, patterns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The columns of the table with a row a head: its name, what it does, scores, entropy. Shape: [head] each."""
        columns: dict[str, NDArray[Any]] = self.grid.columns()
        columns["name"] = np.array([head.table_name for head in self.grid])
        columns["label"] = self.label.ravel()
        columns["label_stays"] = (np.full(self.grid.shape, np.nan) if self.stays is None else self.stays).ravel()
        columns["among_words"] = self.among_words.ravel()
        columns |= {"share": self.share.ravel(), "average": self.average.ravel()}
        for pattern in patterns:
            columns[pattern] = self.table.score[..., self.scores.patterns.index(pattern)].ravel()
        columns["entropy"] = self.scores.entropy.ravel()
        return columns


def resting_on(table: ScoreTable, patterns: Sequence[str]) -> IntArray:
    """Which of `RESTING` takes more than half of each head's attention, the first of several; -1 for none.

    Shape: [..., layer, head], places among `patterns`.
    """
    place = np.full(table.score.shape[:-1], -1)
    for name in RESTING[::-1]:
        if name in patterns:
            p = patterns.index(name)
            place[table.score[..., p] > RESTS] = p  # false for NaN
    return place
