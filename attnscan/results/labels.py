"""What heads are called: the pattern that each follows most, and whether it would be called so again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.scores import MIXED, FloatArray, IntArray, Race, Scores
from attnscan.results.shown import shaped
from attnscan.results.signature import Special
from attnscan.results.terms import THRESHOLD

RESAMPLINGS = 1_000
"""How many bootstrap resamples of an input's words, or of a corpus's pairs, show whether labels stay."""
FEWEST = 5
"""A label that rests on fewer words or pairs says nothing of whether it would stay."""
DRAWN_MAPS = 20
"""So many of these resamples are kept whole: what each head is called there."""
MOST_HEADS = 4096
"""Of a model with more, how sure labels are is not measured: it would take minutes, and gigabytes."""
STAYS = 0.95
"""A label that stays in fewer of the resamplings is not sure."""


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
