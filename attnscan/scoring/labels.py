"""What sums of pairs or of words say of every head: its scores, its label, and in how many resamples this stays. Numpy.

What is drawn are pairs or, of one input, its words. A resample's label follows the rules of the label itself: a head
rests on special tokens, else follows a pattern, else has a habit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnscan.results import behaviour
from attnscan.results.behaviour import Labels, Statements
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable, followed
from attnscan.results.signature import Reading
from attnscan.results.terms import Scored
from attnscan.scoring.blocks import KINDS, PAIR_SUMS, PairSums, effective, error, ratio, resamples, residuals
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.statements import beyond_doubt, differences, habits_of, shares_of, winners

Units = Mapping[str, FloatArray]
"""Sums of what is drawn: of patterns those of `PAIR_SUMS`, each [unit, layer, head, pattern]; of classes `on` and
`even`, [unit, layer, head, column], and `words`, [unit, layer, head, 1]; of all attention `special` and `even_special`,
[unit, layer, head, 3], and `all_words`, [unit, layer, head, 1]."""
_OF_CLASSES = ("on", "even", "special", "even_special", "all_words")
_BUILT_IN = frozenset(pattern.id for pattern in ALL_PATTERNS)
_AT_ONCE, _CELLS = 50, 1 << 22  # resamples, and these x heads x habits, that are worked on together


def units_of(sums: PairSums, reading: Reading) -> dict[str, FloatArray]:
    """What labels need of the sums of a `Scorer` and a `ClassScorer`, whatever they are of."""
    of_patterns = {name: sums[f"{KINDS[reading.among_words]}.{name}"] for name in PAIR_SUMS}
    return of_patterns | {name: sums[name] for name in _OF_CLASSES} | {"words": sums["n"]}


def scores_of(
    sums: PairSums, scored: Sequence[Scored], kind: AttentionKind = AttentionKind.ONLY, layers: tuple[int, ...] = ()
) -> Scores:
    """The scores of heads of that kind of attention, of layers with these numbers; errors are clustered by unit."""
    every_key, words_only = (_table({name: sums[f"{of}.{name}"] for name in (*PAIR_SUMS, "pairs")}) for of in KINDS)
    return Scores(tuple(scored), every_key, words_only, ratio(sums["entropy"], sums["rows"])[..., 0], kind, layers)


def _table(units: Units) -> ScoreTable:
    """The scores by the sums of patterns."""
    n, residual = units["n"], residuals(units["weight"], units["n"])
    return ScoreTable(
        **_means({name: values.sum(0) for name, values in units.items()}),
        se=error(residual),
        n=n.sum(0).astype(np.int64),
        pairs=units["pairs"].sum(0).astype(np.int64),
        effective_pairs=effective(n),
        residual=residual,
    )


def _means(total: Units) -> dict[str, FloatArray]:
    """What labels look at in a table, by sums over all units. Shape: each [..., layer, head, pattern]."""
    weight, n = total["weight"], total["n"]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = {"score": weight / n, "chance": total["chance"] / n, "itself": total["itself"] / n}
        return means | {"share": weight / total["whole"]}


def labels_of(
    scores: Scores, units: Units, reading: Reading, threshold: float, seed: int, *, of_pairs: bool = True
) -> Labels:
    """What every head does, and how sure that is; units are pairs or blocks of pairs, else the words of one input.

    Of a model with too many heads there are no units, and neither habits nor how sure labels are.
    """
    drawn = "pairs" if of_pairs else "words"
    if not units or scores.entropy.size > behaviour.MOST_HEADS:
        return Labels(scores, reading, threshold, drawn=drawn)
    scored, table = scores.scored, scores.table(reading.among_words)
    names, members = habits_of(special=not reading.among_words)
    on, even, words = units["on"] @ members, units["even"] @ members, units["words"]
    shares = shares_of(on.sum(0), even.sum(0), words.sum(0))
    qualify = np.asarray((differences(shares, names) > behaviour.MARGIN).all(0))
    if of_pairs:
        qualify &= beyond_doubt(shares, names, on, even, words)
    habit = winners(shares, qualify)

    def codes(table: ScoreTable, habits: IntArray) -> IntArray:
        """What each head does: a pattern's place, that of a habit behind them, or -1. Shape: [..., layer, head]."""
        pattern = followed(scored, table, threshold, among_words=reading.among_words)
        does = np.where(pattern >= 0, pattern, np.where(habits >= 0, len(scored) + habits, -1))
        rests_on = behaviour.resting_on(table, scores.patterns)
        return np.where(rests_on >= 0, rests_on, does)

    code, count = codes(table, habit), len(on)
    holds, same = np.zeros(habit.shape), np.zeros(habit.shape)
    for times in resamples(count, seed, max(1, min(_AT_ONCE, _CELLS // on[0].size))):
        again = shares_of(*(np.tensordot(times, sums, 1) for sums in (on, even, words)))
        above = np.asarray((differences(again, names) > behaviour.MARGIN).all(0))
        holds += np.take_along_axis(above, habit.clip(0)[None, ..., None], -1)[..., 0].sum(0)
        means: dict[str, Any] = dict(_means({name: np.tensordot(times, units[name], 1) for name in PAIR_SUMS}))
        drawn_table = replace(table, **means)
        same += (codes(drawn_table, winners(again, above)) == code).sum(0)
    habit = np.where(holds >= behaviour.STAYS * behaviour.RESAMPLINGS, habit, -1)
    code = codes(table, habit)
    # A label rests on units with an eligible query of its pattern: of too few of these, nothing is said
    eligible = np.take_along_axis((units["n"] > 0).sum(0), code.clip(0, len(scored) - 1)[..., None], -1)[..., 0]
    too_few = np.where(code < len(scored), eligible, count) < behaviour.FEWEST
    stays = np.where((code < 0) | too_few, np.nan, same / behaviour.RESAMPLINGS)
    statements = Statements(names, shares.share, shares.chance, shares.average[0, 0], habit)
    classes = class_shares(units, scores, reading, of_pairs=of_pairs)
    return Labels(scores, reading, threshold, statements, stays, drawn, count, classes)


def class_shares(
    units: Units, scores: Scores, reading: Reading, *, of_pairs: bool
) -> tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray]:
    """The names of all classes, their shares, errors (none of one input's words), and shares of even attention.

    Patterns of one's own have their scores, beside the classes.
    """
    table, words = scores.table(reading.among_words), slice(len(behaviour.SPECIAL_CLASSES), len(behaviour.CLASSES))
    own = [place for place, name in enumerate(scores.patterns) if name not in _BUILT_IN]
    parts = (
        _shares(units["on"][..., words], units["even"][..., words], units["words"]),
        tuple(values[..., own] for values in (table.score, table.se, table.chance)),
        _shares(units["special"], units["even_special"], units["all_words"]),
    )
    share, se, chance = (np.concatenate(values, -1) for values in zip(*parts, strict=True))
    names = (*behaviour.WORD_CLASSES, *(scores.patterns[place] for place in own), *behaviour.SPECIAL_CLASSES)
    return names, share, se if of_pairs else np.full_like(se, np.nan), chance


def _shares(on: FloatArray, even: FloatArray, words: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean shares, their errors, and shares of even attention.

    Shape: `on` and `even` [unit, layer, head, class], `words` [unit, layer, head, 1] -> [layer, head, class] each.
    """
    return ratio(on, words), error(residuals(on, words)), ratio(even, words)
