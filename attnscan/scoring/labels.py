"""What sums of pairs or of words say of every head: its scores, its label, and in how many resamples this stays. Numpy.

What is drawn are pairs or, of one input, its words. A resample's label follows the rules of the label itself: a head
rests on special tokens, else follows a pattern, else has a habit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import FEWEST, MOST_HEADS, RESAMPLINGS, STAYS, Labels, Statements, resting_on
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable, followed
from attnscan.results.signature import Reading
from attnscan.results.terms import Scored
from attnscan.scoring.blocks import (
    AT_ONCE,
    KINDS,
    PAIR_SUMS,
    PairSums,
    drawings,
    effective,
    error,
    ratio,
    resampled,
    residuals,
    squeezed,
)
from attnscan.scoring.profile import class_shares
from attnscan.scoring.statements import Shares, beyond_doubt, habits_of

Units = Mapping[str, FloatArray]
"""Sums of what is drawn: of patterns `weight`, `n`, `chance`, `whole` and `itself`, each [unit, layer, head, pattern];
of classes `on` and `even`, [unit, layer, head, column], and `words`, [unit, layer, head, 1]; of all attention `special`
and `even_special`, [unit, layer, head, 3], and `all_words`, [unit, layer, head, 1]; 1 in place of layer or head where
all have the same."""

_OF_CLASSES = {"words": "n"} | {name: name for name in ("on", "even", "special", "even_special", "all_words")}
"""What `Units` name of a `ClassScorer`, and what it is there."""
_CELLS = 1 << 22  # of resamples x heads x habits that are worked on at once
_UNKNOWN = np.zeros((1, 1, 1, 1))


def units_of(sums: PairSums, reading: Reading) -> dict[str, FloatArray]:
    """What labels need of the sums of a `Scorer` and a `ClassScorer`, whatever they are of."""
    kind = KINDS[reading.among_words]
    units = {name: sums[f"{kind}.{name}"] for name in PAIR_SUMS} | {n: sums[name] for n, name in _OF_CLASSES.items()}
    return {name: squeezed(values) for name, values in units.items()}


def scores_of(
    sums: PairSums,
    scored: Sequence[Scored],
    kind: AttentionKind = AttentionKind.ONLY,
    layers: tuple[int, ...] = (),
) -> Scores:
    """The scores of every head and pattern: heads of that kind of attention, of layers with these numbers.

    Errors are clustered by unit.
    """
    every_key, words_only = (_scored({name: sums[f"{of}.{name}"] for name in (*PAIR_SUMS, "pairs")}) for of in KINDS)
    return Scores(tuple(scored), every_key, words_only, ratio(sums["entropy"], sums["rows"])[..., 0], kind, layers)


def _scored(sums: Mapping[str, FloatArray]) -> ScoreTable:
    weight, n = sums["weight"], sums["n"]
    residual = residuals(weight, n)
    return ScoreTable(
        score=ratio(weight, n),
        chance=ratio(sums["chance"], n),
        se=error(residual),
        n=n.sum(0).astype(np.int64),
        pairs=sums["pairs"].sum(0).astype(np.int64),
        effective_pairs=effective(n),
        share=ratio(weight, sums["whole"]),
        itself=ratio(sums["itself"], n),
        residual=residual,
    )


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
        of_heads, of_even = np.broadcast_arrays(on, even)
        qualify &= beyond_doubt(shares, of_heads, of_even, words)
    habit = shares.winners(qualify)

    def codes(table: ScoreTable, habits: IntArray) -> IntArray:
        """What each head does: a pattern's place, that of a habit behind them, or -1. Shape: [..., layer, head]."""
        pattern = followed(scored, table, threshold, among_words=reading.among_words)
        behind = np.where(habits >= 0, len(scored) + habits, -1)
        does = np.where(pattern >= 0, pattern, behind)
        rests_on = resting_on(table, scores.patterns)
        return np.where(rests_on >= 0, rests_on, does)

    table = scores.table(reading.among_words)
    code, count = codes(table, habit), len(on)
    holds, same = np.zeros(shape), np.zeros(shape)
    place = np.clip(habit, 0, None)[None, ..., None]
    for times in drawings(count, seed, max(1, min(AT_ONCE, _CELLS // on[0].size))):
        again = Shares.of(resampled(times, on), resampled(times, even), resampled(times, words), names)
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
    sums = {name: resampled(drawn, units[name]) for name in PAIR_SUMS}
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
