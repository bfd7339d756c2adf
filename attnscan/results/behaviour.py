"""Behaviours: what every head does by one reading: the pattern that it follows, else its statement, else nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.results.grid import Grid, Head
from attnscan.results.labels import STAYS, Labels
from attnscan.results.scores import MIXED, FloatArray, ScoreTable
from attnscan.results.shown import shaped
from attnscan.results.statement import AVERAGE, Statements


@dataclass(frozen=True)
class Kind:
    """Something that heads of a model do: following a pattern, or what a statement says."""

    name: str
    """A pattern, or a statement's candidate."""
    labelled: bool
    """Whether it is a pattern."""
    heads: tuple[Head, ...]
    """Those that do it, strongest first; none for a pattern that no head follows."""
    average: float
    """The mean score or share of all heads, in [0, 1]: the average head's."""


@dataclass(frozen=True)
class Behaviours:
    """What every head of a model does, by one reading of its attention."""

    __repr__ = shaped

    labels: Labels
    """By weight, or by what heads carry."""
    statements: Statements | None
    """By the same reading; None where they were not measured, and a head without a label is `mixed`."""
    special: bool = False
    """Whether special tokens are keys of the reading; else they are removed, and rows renormalised over words."""

    @property
    def grid(self) -> Grid:
        """The heads."""
        return self.labels.scores.grid

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.labels.scores.table(not self.special)

    @property
    def label(self) -> NDArray[np.str_]:
        """The pattern that each head follows by this reading, or `mixed`. Shape: [layer, head]."""
        return self.labels.label if self.special else self.labels.content_label

    @cached_property
    def labelled(self) -> NDArray[np.bool_]:
        """Which heads follow a pattern. Shape: [layer, head]."""
        labelled: NDArray[np.bool_] = self.label != MIXED
        return labelled

    @cached_property
    def kind(self) -> NDArray[np.str_]:
        """What each head does: its label; of a mixed head its statement, or `average` if it has none.

        Shape: [layer, head].
        """
        others = self.label if self.statements is None else self.statements.statement
        kind: NDArray[np.str_] = np.where(self.labelled, self.label, others)
        return kind

    @cached_property
    def own(self) -> NDArray[np.bool_]:
        """Which heads do something that sets them apart: all but `mixed` and `average` ones. Shape: [layer, head]."""
        own: NDArray[np.bool_] = (self.kind != MIXED) & (self.kind != AVERAGE)
        return own

    @cached_property
    def unsure(self) -> NDArray[np.bool_]:
        """Where a label or statement does not stay in 95 % of bootstrap resamples, or rests on too few units to tell.

        Shape: [layer, head]; false where that was not measured.
        """
        unsure = self.labels.unsure if self.special else self.labels.content_unsure
        return unsure if self.statements is None else np.where(self.labelled, unsure, self.statements.unsure)

    @cached_property
    def drawn(self) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        """What each unsure head would do in the first bootstrap resamples, and others do; and whether that is a label.

        Shape: [resample, layer, head] each; of no resamples where none were drawn.
        """
        stability = self.labels.stability
        labels = np.zeros((0, *self.grid.shape), dtype=np.int64)
        if stability is not None:
            labels = stability.drawn.get("in" if self.special else "out", labels)
        others: NDArray[np.str_] = np.full(labels.shape, MIXED)
        if self.statements is not None and self.statements.drawn is not None and len(labels):
            others = np.asarray([*self.statements.names, AVERAGE])[self.statements.drawn]
        called = np.where(labels < 0, others, np.asarray(self.labels.scores.patterns)[labels])
        return np.where(self.unsure, called, self.kind), np.where(self.unsure, labels >= 0, self.labelled)

    @cached_property
    def strength(self) -> FloatArray:
        """The score of a head that follows a pattern, the share of one with a statement; NaN of others.

        Shape: [layer, head], in [0, 1].
        """
        own: FloatArray = np.full(self.grid.shape, np.nan)
        for place, pattern in enumerate(self.labels.scores.patterns):
            own = np.where(self.label == pattern, self.table.score[..., place], own)
        if self.statements is None:
            return own
        return np.where(self.labelled, own, self.statements.columns()["statement_share"].astype(float))

    @cached_property
    def average_score(self) -> FloatArray:
        """The mean score of all heads on each pattern; NaN for one that was not scored. Shape: [pattern]."""
        with np.errstate(invalid="ignore", divide="ignore"):
            average: FloatArray = np.nansum(self.table.score, (0, 1)) / (~np.isnan(self.table.score)).sum((0, 1))
        return average

    @property
    def kinds(self) -> Iterator[Kind]:
        """All patterns in their order, then the statements that heads have, those of most heads first."""
        order = [self.grid[number] for number in np.argsort(-self.strength, axis=None, kind="stable")]

        def heads(name: str, *, labelled: bool) -> tuple[Head, ...]:
            return tuple(h for h in order if self.kind[h.place] == name and self.labelled[h.place] == labelled)

        for pattern, score in zip(self.labels.scores.patterns, self.average_score, strict=True):
            yield Kind(pattern, True, heads(pattern, labelled=True), float(score))
        if self.statements is not None:
            shares = zip(self.statements.names, self.statements.average, strict=True)
            stated = [Kind(name, False, heads(name, labelled=False), float(share)) for name, share in shares]
            yield from sorted((kind for kind in stated if kind.heads), key=lambda kind: -len(kind.heads))

    def numbers(self, name: str, head: Head, *, labelled: bool) -> dict[str, float]:
        """A head's score for a pattern, or its share of a statement's candidate, and what that stands beside.

        With `share`, `chance` and `average` in [0, 1], NaN for what is not known, and the head's `rank` from 1.
        """
        if labelled:
            p = self.labels.scores.patterns.index(name)
            share, chance, average = self.table.score[..., p], self.table.chance[..., p], self.average_score[p]
        else:
            assert self.statements is not None
            p = self.statements.names.index(name)
            share, chance, average = (
                self.statements.share[..., p],
                self.statements.chance[..., p],
                self.statements.average[p],
            )
        own = float(share[head.place])
        even = float(np.broadcast_to(chance, share.shape)[head.place])
        return {"share": own, "chance": even, "average": float(average), "rank": 1 + int((share > own).sum())}

    def sure(self) -> tuple[int, int] | None:
        """How many labels of patterns, and how many statements, stay in 95 % of resamples; None if not measured."""
        if (stability := self.labels.stability) is None:
            return None
        stays = stability.label if self.special else stability.content_label
        stated = self.own & ~self.labelled
        statements = 0 if self.statements is None else int((self.statements.stays[stated] >= STAYS).sum())
        return int((stays[self.labelled] >= STAYS).sum()), statements
