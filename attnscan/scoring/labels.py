"""Labels of heads from sums of pairs or of words, and in how many bootstrap resamples each stays. Numpy.

What is drawn are pairs or, of one input, its words. A resample's label follows the rules of the label itself: a head
rests on special tokens, else follows a pattern, else has a habit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import COLUMNS, FEWEST, MOST_HEADS, RESAMPLINGS, STAYS, Labels, Statements, are_resting
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable, followed
from attnscan.results.signature import Reading
from attnscan.results.terms import DELIMITER, Scored
from attnscan.scoring.profile import class_shares
from attnscan.scoring.resampling import AT_ONCE, BlockSums, drawings, most_blocks, squeezed, summed
from attnscan.scoring.statements import Shares, beyond_doubt, habits_of
from attnscan.scoring.sums import KINDS, Adding, PairSums

Units = Mapping[str, FloatArray]
"""Sums of what is drawn: of patterns `weight`, `n`, `chance`, `whole` and `itself`, each [unit, layer, head, pattern];
of classes `on` and `even`, [unit, layer, head, column], and `words`, [unit, layer, head, 1]; of all attention `special`
and `even_special`, [unit, layer, head, 3], and `all_words`, [unit, layer, head, 1]; 1 in place of layer or head where
all have the same."""

_QUANTITIES = ("weight", "n", "chance", "whole", "itself")
_OF_CLASSES = {"on": COLUMNS, "even": COLUMNS, "words": 1, "special": 3, "even_special": 3, "all_words": 1}
"""Sums of classes, and how many columns each has."""
_CELLS = 1 << 22  # of resamples x heads x habits that are worked on at once
_UNKNOWN = np.zeros((1, 1, 1, 1))


def units_of(pairs: PairSums, classes: PairSums, reading: Reading) -> dict[str, FloatArray]:
    """What labels need of the sums of a `Scorer` and a `ClassScorer`."""
    kind = KINDS[reading.among_words]
    units = {name: pairs[f"{kind}.{name}"] for name in _QUANTITIES}
    return units | {name: classes["n" if name == "words" else name] for name in _OF_CLASSES}


def no_classes(pairs: PairSums) -> dict[str, FloatArray]:
    """What a `ClassScorer` says of pairs of which one pattern alone is scored again: nothing is added."""
    count = len(pairs["every_key.n"])
    columns = {"n" if name == "words" else name: width for name, width in _OF_CLASSES.items()}
    return {name: np.zeros((count, 1, 1, width)) for name, width in columns.items()}


@dataclass(frozen=True)
class LabelSums(Adding):
    """Sums over pairs, block by block, of which labels follow, and how sure they are."""

    scored: tuple[Scored, ...]
    blocks: BlockSums
    """Sums as `Units` names them, of the patterns that need them; none of too many heads."""

    @classmethod
    def of(cls, units: Units, scored: tuple[Scored, ...], keys: Sequence[str]) -> LabelSums:
        """Of some pairs, by the `Pair.key` of each."""
        if units["weight"][0, ..., 0].size > MOST_HEADS:
            return cls(scored, BlockSums({}))
        of_patterns = {name: units[name][..., columns_of(name, scored)] for name in _QUANTITIES}
        needed = {name: squeezed(values) for name, values in {**units, **of_patterns}.items()}
        return cls(scored, BlockSums.of(keys, needed, most_blocks(units["weight"][0].size + units["on"][0].size)))

    def checked(self, grid: tuple[int, int]) -> Self:
        """These, if blocks are of the shapes that they must be. Raises: ValueError if not, as from a damaged file."""
        widths = {name: len(columns_of(name, self.scored)) for name in _QUANTITIES}
        self.blocks.checked({name: (*grid, width) for name, width in (widths | _OF_CLASSES).items()})
        return self

    def units(self) -> dict[str, FloatArray]:
        """The sums block by block; those that no label needs are zero."""
        units = self.blocks.stacked()
        for name in _QUANTITIES if units else ():
            values = np.zeros((*units[name].shape[:-1], len(self.scored)))
            values[..., columns_of(name, self.scored)] = units[name]
            units[name] = values
        return units


def columns_of(name: str, scored: Sequence[Scored]) -> list[int]:
    """The patterns whose labels need a sum: few ask what a part has of its whole, or a word's weight on itself."""
    if name == "whole":
        return [p for p, pattern in enumerate(scored) if pattern.part_of is not None]
    return [p for p, pattern in enumerate(scored) if name != "itself" or pattern.of_others]


def labels_of(
    scores: Scores, units: Units, reading: Reading, threshold: float, seed: int, *, of_pairs: bool = True
) -> Labels:
    """What every head does, and how sure that is; units are pairs or blocks of pairs, else the words of one input.

    Of a model with too many heads there are no units, and neither habits nor how sure labels are.
    """
    drawn = "pairs" if of_pairs else "words"
    if not units or scores.entropy.size > MOST_HEADS:
        return Labels(scores, reading, threshold, drawn=drawn)
    scored, shape = scores.scored, scores.grid.shape
    names, members = habits_of(special=not reading.among_words)
    on, even, words = units["on"] @ members, units["even"] @ members, units["words"]
    shares = Shares.of(on.sum(0), even.sum(0), words.sum(0), names)
    qualify = shares.above()
    if of_pairs:
        qualify &= beyond_doubt(shares, on, np.broadcast_to(even, on.shape), words)
    habit = shares.winners(qualify)

    def codes(table: ScoreTable, habits: IntArray) -> IntArray:
        """What each head does: a pattern's place, that of a habit behind them, or -1. Shape: [..., layer, head]."""
        pattern = followed(scored, table, threshold, among_words=reading.among_words)
        behind = np.where(habits >= 0, len(scored) + habits, -1)
        does = np.where(pattern >= 0, pattern, behind)
        return np.where(are_resting(table, scores.patterns), delimiter, does)

    delimiter = scores.patterns.index(DELIMITER) if DELIMITER in scores.patterns else -1
    table = scores.table(reading.among_words)
    code, count = codes(table, habit), len(on)
    holds, same = np.zeros(shape), np.zeros(shape)
    place = np.clip(habit, 0, None)[None, ..., None]
    for times in drawings(count, seed, max(1, min(AT_ONCE, _CELLS // on[0].size))):
        again = Shares.of(summed(times, on), summed(times, even), summed(times, words), names)
        above = again.above()
        holds += np.take_along_axis(above, np.broadcast_to(place, (len(times), *shape, 1)), -1)[..., 0].sum(0)
        same += (codes(_table(units, scored, times, shape), again.winners(above)) == code).sum(0)
    habit = np.where(holds >= STAYS * RESAMPLINGS, habit, -1)
    code = codes(table, habit)
    stays = np.where(_too_few(units, code, shape), np.nan, same / RESAMPLINGS)
    statements = Statements(names, shares.share, shares.chance, shares.average[0, 0], habit)
    classes = class_shares(units, scores, reading, of_pairs=of_pairs)
    return Labels(scores, reading, threshold, statements, stays, drawn, count, classes)


def _too_few(units: Units, code: IntArray, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Where a label rests on too few units to tell, or there is none: a pattern's on those with an eligible query."""
    count, patterns = units["n"].shape[0], units["n"].shape[-1]
    eligible = np.broadcast_to((units["n"] > 0).sum(0), (*shape, patterns))
    rests_on = np.take_along_axis(eligible, np.clip(code, 0, patterns - 1)[..., None], -1)[..., 0]
    few: NDArray[np.bool_] = (code < 0) | (np.where(code < patterns, rests_on, count) < FEWEST)
    return few


def _table(units: Units, scored: Sequence[Scored], drawn: FloatArray, shape: tuple[int, int]) -> ScoreTable:
    """The scores by some resamples, as far as labels need them. Shape: `drawn` [resample, unit]."""
    sums = {name: summed(drawn, units[name]) for name in _QUANTITIES}
    weight = np.broadcast_to(sums["weight"], (len(drawn), *shape, len(scored)))
    with np.errstate(invalid="ignore", divide="ignore"):
        return ScoreTable(
            score=weight / sums["n"],
            chance=sums["chance"] / sums["n"],
            se=_UNKNOWN,  # which no label looks at, and which takes as long as all else
            n=_UNKNOWN.astype(np.int64),
            pairs=_UNKNOWN.astype(np.int64),
            effective_pairs=_UNKNOWN,
            share=weight / sums["whole"],
            itself=sums["itself"] / sums["n"],
        )
