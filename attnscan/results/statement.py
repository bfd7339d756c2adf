"""Statements: what each head does, told from the average head of the same model, in one sentence.

Every word's attention is divided into classes of keys. A candidate is a union of classes, such as the next three words;
a head is stated by the candidate that tells it best from the average head, where that is sure. Numpy, no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.shown import shaped

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


@dataclass(frozen=True)
class Candidate:
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
    Candidate("itself", "i", "itself", _classes("itself")),
    Candidate("identical", "I", "identical words, own sentence", _classes("identical")),
    Candidate("cross-sentence", "X", "identical words, other sentence", _classes("cross-sentence")),
    Candidate("next-word", "N", "next word", _classes("next")),
    Candidate("next-3", "n", "next 3 words", _NEXT_3),
    Candidate("next-8", "m", "next 8 words", _NEXT_8),
    Candidate("previous-word", "P", "previous word", _classes("previous")),
    Candidate("previous-3", "p", "previous 3 words", _PREVIOUS_3),
    Candidate("previous-8", "q", "previous 8 words", _PREVIOUS_8),
    Candidate("within-1", "v", "word on either side", _classes("next", "previous")),
    Candidate("within-3", "w", "3 words on either side", _NEXT_3 + _PREVIOUS_3),
    Candidate("after", "a", "words after it", _AFTER),
    Candidate("before", "b", "words before it", _BEFORE),
    Candidate("punctuation", "u", "punctuation", _classes("punctuation")),
    Candidate("own-sentence", "o", "its own sentence", _classes("itself", "identical") + _AFTER + _BEFORE),
    Candidate("other-sentence", "x", "the other sentence", _classes("cross-sentence", "elsewhere")),
    Candidate("frequent-words", "f", "frequent words", (FREQUENT,)),
    Candidate("rare-words", "r", "rarer words", (RARE,)),
    Candidate("start", "s", "special tokens at the start", _classes("start"), special=True),
    Candidate("middle", "d", "special tokens in the middle", _classes("middle"), special=True),
    Candidate("end", "t", "special tokens at the end", _classes("end"), special=True),
    Candidate("delimiter", "D", "special tokens", _classes("start", "middle", "end"), special=True),
    Candidate("even", "e", "all keys evenly", (EVEN,)),
    Candidate("same-keys", "k", "same keys from every word", (SAME_KEYS,)),
)
STAYS = 0.95
"""A statement is printed if its differences hold in this share of resamples, and has a `?` if it wins in fewer."""


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
