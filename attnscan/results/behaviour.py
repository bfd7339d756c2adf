"""What every head does by one reading: its label, the pattern that it follows, else its statement, else nothing.

Statements tell each head from the average head of the same model, in one sentence. Every word's attention is divided
into classes of keys. A candidate is a union of classes, such as the next three words; a head is stated by the candidate
that tells it best from the average head, where that is sure. Numpy, no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.grid import Grid, Head
from attnscan.results.scores import MIXED, FloatArray, IntArray, Race, Scores, ScoreTable
from attnscan.results.shown import shaped
from attnscan.results.signature import Special
from attnscan.results.terms import THRESHOLD

CLASSES = (
    "start",
    "middle",
    "end",
    "itself",
    "identical",
    "cross-sentence",
    "next",
    "previous",
    "next-2-3",
    "previous-2-3",
    "punctuation",
    "next-4-8",
    "previous-4-8",
    "later",
    "earlier",
    "elsewhere",
)
"""Where a word's attention goes; a key is of the first that fits. `elsewhere` is the rest of the other sentence."""
FREQUENT, RARE, EVEN, SAME_KEYS = range(len(CLASSES), len(CLASSES) + 4)
"""The other columns that are summed: attention on frequent and on rare words, and what two rows have in common with it:
an even one, and the mean row of the input's other words."""
COLUMNS = len(CLASSES) + 4

TABLE_COLUMNS = (
    "statement",
    *(f"statement_{number}" for number in ("share", "chance", "average", "rank", "stays")),
)
AVERAGE = "average"
"""In place of a candidate: nothing tells the head from the average head."""
MARGIN = 0.10
"""How far a head must be above the average head, and above even attention."""
LEVEL = 0.025
"""How often, over all heads and candidates together, chance alone may put a head above one of the two."""

RESAMPLINGS = 1_000
"""How many bootstrap resamples of an input's words, or of a corpus's pairs, show whether labels stay."""
FEWEST = 5
"""A label that rests on fewer words or pairs says nothing of whether it would stay."""
DRAWN_MAPS = 20
"""So many of these resamples are kept whole: what each head is called there."""
MOST_HEADS = 4096
"""Of a model with more, how sure labels are is not measured: it would take minutes, and gigabytes."""
STAYS = 0.95
"""A label that stays in fewer of the bootstrap resamples is not sure. A statement is printed if its differences hold in
this share of them, and has a `?` if it wins in fewer."""


@dataclass(frozen=True)
class _Candidate:
    """Something that a head may be stated to do."""

    id: str
    """The name in every table, such as `next-3`; that of a pattern where it means the same keys."""
    letter: str
    """Its mark in maps."""
    words: str
    """What words attend to, as screens say it."""
    columns: tuple[int, ...]
    """The columns that it is the sum of."""
    special: bool = False
    """Whether it is of special tokens, and so only where these are keys."""


def _classes(*names: str) -> tuple[int, ...]:
    return tuple(map(CLASSES.index, names))


_NEXT_3, _PREVIOUS_3 = _classes("next", "next-2-3"), _classes("previous", "previous-2-3")
_NEXT_8, _PREVIOUS_8 = _NEXT_3 + _classes("next-4-8"), _PREVIOUS_3 + _classes("previous-4-8")
_AFTER, _BEFORE = _NEXT_8 + _classes("later"), _PREVIOUS_8 + _classes("earlier")
CANDIDATES = (
    _Candidate("itself", "i", "itself", _classes("itself")),
    _Candidate("identical", "I", "identical words, own sentence", _classes("identical")),
    _Candidate("cross-sentence", "X", "identical words, other sentence", _classes("cross-sentence")),
    _Candidate("next-word", "N", "next word", _classes("next")),
    _Candidate("next-3", "n", "next 3 words", _NEXT_3),
    _Candidate("next-8", "m", "next 8 words", _NEXT_8),
    _Candidate("previous-word", "P", "previous word", _classes("previous")),
    _Candidate("previous-3", "p", "previous 3 words", _PREVIOUS_3),
    _Candidate("previous-8", "q", "previous 8 words", _PREVIOUS_8),
    _Candidate("within-1", "v", "word on either side", _classes("next", "previous")),
    _Candidate("within-3", "w", "3 words on either side", _NEXT_3 + _PREVIOUS_3),
    _Candidate("after", "a", "words after it", _AFTER),
    _Candidate("before", "b", "words before it", _BEFORE),
    _Candidate("punctuation", "u", "punctuation", _classes("punctuation")),
    _Candidate("own-sentence", "o", "its own sentence", _classes("itself", "identical") + _AFTER + _BEFORE),
    _Candidate("other-sentence", "x", "the other sentence", _classes("cross-sentence", "elsewhere")),
    _Candidate("frequent-words", "f", "frequent words", (FREQUENT,)),
    _Candidate("rare-words", "r", "rarer words", (RARE,)),
    _Candidate("start", "s", "special tokens at the start", _classes("start"), special=True),
    _Candidate("middle", "d", "special tokens in the middle", _classes("middle"), special=True),
    _Candidate("end", "t", "special tokens at the end", _classes("end"), special=True),
    _Candidate("delimiter", "D", "special tokens", _classes("start", "middle", "end"), special=True),
    _Candidate("even", "e", "all keys evenly", (EVEN,)),
    _Candidate("same-keys", "k", "same keys from every word", (SAME_KEYS,)),
)


@dataclass(frozen=True)
class Statements:
    """What every head of a model does, by one reading."""

    __repr__ = shaped

    names: tuple[str, ...]
    """The candidates."""
    share: FloatArray
    """Mean share of a word's attention, in [0, 1]; NaN of a head without any. Shape: [layer, head, candidate]."""
    chance: FloatArray
    """That under even attention; 0 for `even` and `same-keys`. Shape: [layer, head, candidate]."""
    average: FloatArray
    """The mean share over all heads: the average head's. Shape: [candidate]."""
    winner: IntArray
    """The candidate that states each head, by its place among `names`; -1 if the head is like the average one.

    Shape: [layer, head]."""
    stays: FloatArray
    """In what share of resamples the same candidate states the head; NaN for one like the average head.

    Shape: [layer, head]."""
    units: int = field(default=0)
    """How many pairs or blocks of pairs, or words of one input, are resampled."""
    drawn: IntArray | None = None
    """What states each head in the first resamples, as `winner`. Shape: [`DRAWN_MAPS`, layer, head]; None: not kept."""
    of_pairs: bool = True
    """Whether that is pairs; else the words of one input, which statements describe and say nothing beyond."""

    @cached_property
    def statement(self) -> NDArray[np.str_]:
        """Each head's candidate, or `average`. Shape: [layer, head]."""
        names: NDArray[np.str_] = np.asarray([*self.names, AVERAGE])
        return names[self.winner]

    @cached_property
    def unsure(self) -> NDArray[np.bool_]:
        """Where another candidate wins in more than 5 % of resamples. Shape: [layer, head]."""
        return self.stays < STAYS

    @cached_property
    def rank(self) -> FloatArray:
        """The head's rank among all heads by its candidate's share, from 1; NaN for `average`. Shape: [layer, head]."""
        flat = np.nan_to_num(self.share.reshape(-1, len(self.names)), nan=-np.inf)
        own = self._of_winner(self.share)
        higher = (flat[:, np.clip(self.winner, 0, None)] > own).sum(0)
        return np.where(self.winner >= 0, higher + 1.0, np.nan)

    def _of_winner(self, values: FloatArray) -> FloatArray:
        """Values of each head's own candidate; NaN for `average`. Shape: [layer, head, candidate] -> [layer, head]."""
        place = np.clip(self.winner, 0, None)[..., None]
        own = np.take_along_axis(np.broadcast_to(values, self.share.shape), place, -1)[..., 0]
        return np.where(self.winner >= 0, own, np.nan)

    def columns(self) -> dict[str, NDArray[np.str_] | FloatArray]:
        """The columns of tables with a row a head. Shape: [layer, head] each."""
        values = (
            self.statement,
            self._of_winner(self.share),
            self._of_winner(self.chance),
            self._of_winner(self.average),
            self.rank,
            self.stays,
        )
        return dict(zip(TABLE_COLUMNS, values, strict=True))


def table_columns(statements: Statements | None, grid: Grid) -> dict[str, NDArray[np.str_] | FloatArray]:
    """The columns of tables with a row a head; empty where statements were not measured. Shape: [layer, head] each."""
    if statements is not None:
        return statements.columns()
    return {name: np.full(grid.shape, np.nan) for name in TABLE_COLUMNS}


@dataclass(frozen=True)
class Stability:
    """Share of bootstrap resamples in which each head keeps its label: of an input's words, or of pairs.

    Shape: each [layer, head], in [0, 1]; NaN where the label rests on fewer than `FEWEST` of them.
    """

    __repr__ = shaped

    label: FloatArray
    """By the weights as they are, or by what heads carry."""
    content_label: FloatArray
    """With special tokens removed."""
    drawn: Mapping[Special, IntArray] = field(default_factory=dict)
    """With special tokens in and out, each head's pattern in the first resamples by its place; -1 for `mixed`.

    Shape: each [`DRAWN_MAPS`, layer, head]."""


@dataclass(frozen=True)
class Agreement:
    """Of what share of the pairs each head's label is that of the pair alone, too.

    Of the pairs that have an eligible word for it; of all, for `mixed`. Shape: each [layer, head], in [0, 1].
    """

    __repr__ = shaped

    label: FloatArray
    """By the weights as they are, or by what heads carry."""
    content_label: FloatArray
    """With special tokens removed."""


@dataclass(frozen=True)
class Labels:
    """What every head of a model is called, by one reading of its attention."""

    __repr__ = shaped

    scores: Scores
    """What the labels are of."""
    norm: bool
    """Whether that is what heads carry, and not their weights."""
    threshold: float = THRESHOLD
    """How far above chance a label's pattern must be."""
    stability: Stability | None = field(default=None, repr=False)
    """How sure the labels are; None if that was not measured."""
    agreement: Agreement | None = field(default=None, repr=False)
    """How many pairs say the same; None of one input."""

    @cached_property
    def label(self) -> NDArray[np.str_]:
        """The pattern that each head follows. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.every_key, 0, self.threshold)

    @cached_property
    def runner_up(self) -> NDArray[np.str_]:
        """The second one. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.every_key, 1, self.threshold)

    @cached_property
    def content_label(self) -> NDArray[np.str_]:
        """What each head does when it does not attend to special tokens. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.words_only, 0, self.threshold)

    @cached_property
    def content_runner_up(self) -> NDArray[np.str_]:
        """The second one, with special tokens removed. Shape: [layer, head]."""
        return self.scores.ranked_labels(self.scores.words_only, 1, self.threshold)

    @staticmethod
    def kind(special: Special, rank: int = 0) -> str:
        """The name of the labels with special tokens in or out, or with `rank` 1 of those that come second."""
        return f"{'content_' if special == 'out' else ''}{'runner_up' if rank else 'label'}"

    def called(self, special: Special, rank: int = 0) -> NDArray[np.str_]:
        """The labels with special tokens in or out, or with `rank` 1 those that come second. Shape: [layer, head]."""
        labels: NDArray[np.str_] = getattr(self, self.kind(special, rank))
        return labels

    def stays(self, special: Special) -> FloatArray | None:
        """In what share of resamples labels stay; None if that was not measured. Shape: [layer, head]."""
        return None if self.stability is None else getattr(self.stability, self.kind(special))

    def questioned(self, special: Special) -> NDArray[np.bool_]:
        """Which labels would not stay, or rest on too little to tell. Shape: [layer, head]."""
        return self.content_unsure if special == "out" else self.unsure

    @property
    def drawn(self) -> str:
        """What is resampled to see whether labels stay."""
        return "words" if self.agreement is None else "pairs"

    def race(self, special: Special) -> Race:
        """How far above chance each head's best pattern is, and above the next, with special tokens in or out."""
        return Race(self.scores.scored, self.scores.table(special == "out"))

    @cached_property
    def parking(self) -> FloatArray:
        """How much each head rests on delimiters, in [0, 1]; 0 where there are none. Shape: [layer, head]."""
        if "delimiter" not in self.scores.patterns:
            return np.zeros(self.scores.grid.shape)
        return np.nan_to_num(self.scores.every_key.score[..., self.scores.patterns.index("delimiter")])

    @cached_property
    def unsure(self) -> NDArray[np.bool_]:
        """Which heads' labels would not stay, or rest on too little to tell; never `mixed`. Shape: [layer, head]."""
        return _unsure(self.label, None if self.stability is None else self.stability.label)

    @cached_property
    def content_unsure(self) -> NDArray[np.bool_]:
        """Which labels on words would not stay, or rest on too little to tell. Shape: [layer, head]."""
        return _unsure(self.content_label, None if self.stability is None else self.stability.content_label)


_READ_OFF = {
    "label": (False, 0),
    "runner_up": (False, 1),
    "content_label": (True, 0),
    "content_runner_up": (True, 1),
}
"""Of each kind of labels whether it is among words, and which rank."""


def shares(columns: Mapping[str, tuple[Labels | None, str]]) -> list[dict[str, Any]]:
    """The labels that a part's share of a wider pattern's weight decided, with the share and its chance.

    `columns` says where each column's labels come from: `carried_label` may be the `label` of other `Labels`.
    """
    rows: list[dict[str, Any]] = []
    for column, (labels, name) in columns.items():
        if labels is None:
            continue
        among_words, rank = _READ_OFF[name]
        table, patterns = labels.scores.table(among_words), labels.scores.patterns
        chance = table.share_chance
        assert chance is not None, "labels of a table that is for labels alone"
        race = Race(labels.scores.scored, table)
        for whole, part, decided in race.decided_by_share(rank, labels.threshold):
            rows += [
                {"layer": layer, "head": head, "column": column, "pattern": patterns[part], "of": patterns[whole]}
                | {"share": float(table.share[layer, head, part]), "chance": float(chance[layer, head, part])}
                for layer, head in np.argwhere(decided).tolist()
            ]
    return rows


def _unsure(label: NDArray[np.str_], stays: FloatArray | None) -> NDArray[np.bool_]:
    if stays is None:
        return np.zeros(label.shape, dtype=bool)
    unsure: NDArray[np.bool_] = ~(stays >= STAYS) & (label != MIXED)
    return unsure


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
