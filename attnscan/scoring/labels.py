"""Every head's scores, habit and label from sums of pairs or of words, and how sure the label is. Numpy.

A habit sets a head apart from the average head of its model. For each head and habit, over all words: M is its mean
share of attention, E that under even attention, A the mean of M over all heads. A head has the habit with the largest
relative entropy of M to A among those for which M - A and M - E are above 0.10: of many pairs by a test that counts all
heads and habits, with errors clustered by pair; then by bootstrap resamples.

What is resampled are pairs or, of one input, its words. A resample's label follows the rules of the label itself: a
head rests on special tokens, else follows a pattern, else has a habit.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscan.results.scores import (
    CLASSES,
    COLUMNS,
    HABITS,
    MOST_HEADS,
    RESAMPLINGS,
    SPECIAL_CLASSES,
    STAYS,
    WORD_CLASSES,
    FloatArray,
    Habits,
    IntArray,
    Labels,
    Scores,
    ScoreTable,
    followed,
    resting_on,
)
from attnscan.results.terms import DELIMITER, AttentionKind, AttentionView, Grid, Scored, scipy
from attnscan.scoring.blocks import (
    KEY_SETS,
    PAIR_SUMS,
    SumsByName,
    effective,
    error,
    ratio,
    resamples,
    residuals,
)
from attnscan.scoring.cross import ALL_PATTERNS

BoolArray = NDArray[np.bool_]
MARGIN = (
    0.10  # how far a head must be above the average head, and above even attention, for a habit
)
LEVEL = (
    0.025  # how often, over all heads and habits, chance alone may put a head above one of the two
)
FEWEST = 5  # a label that rests on fewer words or pairs says nothing of whether it would stay
_BUILT_IN = frozenset(pattern.id for pattern in ALL_PATTERNS)
_AT_ONCE, _CELLS = 50, 1 << 22  # resamples, and these x heads x habits, that are worked on together
SPECIAL_HABITS = (
    *SPECIAL_CLASSES,
    DELIMITER,
)  # habits that exist only where special tokens are keys


def habits_of(*, special: bool) -> tuple[tuple[str, ...], FloatArray]:
    """The habits of a reading, and 1 for each column that is part of one. Shape: the second [column, habit]."""
    names = [name for name in HABITS if special or name not in SPECIAL_HABITS]
    members = np.zeros((COLUMNS, len(names)))
    for place, name in enumerate(names):
        members[list(HABITS[name]), place] = 1
    return tuple(names), members


class Shares(NamedTuple):
    """Shares of attention by habit, from sums over units. Shape: each [..., layer, head, habit]."""

    share: FloatArray  # M
    chance: FloatArray  # E
    average: FloatArray  # A, over the heads that have an M: [..., 1, 1, habit]


def shares_of(on: FloatArray, even: FloatArray, n: FloatArray) -> Shares:
    """From attention on each habit, that under even attention, and words."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = on / n
        heads = (~np.isnan(share)).sum((-3, -2), keepdims=True)
        return Shares(share, even / n, np.nansum(share, (-3, -2), keepdims=True) / heads)


def differences(shares: Shares, names: tuple[str, ...], *, fill: float = np.inf) -> FloatArray:
    """M - A, M - E and, of `same-keys`, its M less that of `even`, with `fill` for all other habits.

    A habit qualifies if all three are above the margin. Shape: [3, ..., layer, head, habit].
    """
    same_keys, even = names.index("same-keys"), names.index("even")
    beyond_even = np.full(shares.share.shape, fill, dtype=np.float64)
    beyond_even[..., same_keys] = shares.share[..., same_keys] - shares.share[..., even]
    return np.stack([shares.share - shares.average, shares.share - shares.chance, beyond_even])


def best_habit(shares: Shares, qualify: BoolArray) -> IntArray:
    """The habit that tells each head best from the average head, by M ln(M/A) + (1-M) ln((1-M)/(1-A)).

    -1 where none qualifies. Shape: [..., layer, head].
    """
    gain = np.zeros(shares.share.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        for head_share, average in (
            (shares.share, shares.average),
            (1 - shares.share, 1 - shares.average),
        ):
            gain += np.where(
                head_share > 0, head_share * np.log(head_share / average), 0.0
            )  # 0 ln 0 is 0
    return np.where(qualify.any(-1), np.where(qualify, gain, -np.inf).argmax(-1), -1)


def significant(
    shares: Shares, names: tuple[str, ...], on: FloatArray, even: FloatArray, n: FloatArray
) -> BoolArray:
    """Where the differences are above the margin by a t-test at a level that counts all heads and habits.

    Shape: `on`, `even` and `n` [unit, layer, head, habit] -> [layer, head, habit].
    """
    if len(on) < 2:
        return np.zeros(shares.share.shape, dtype=bool)
    quantile = scipy.special.stdtrit(len(on) - 1, 1 - LEVEL / shares.share.size)
    of_head, heads = np.nan_to_num(residuals(on, n)), (~np.isnan(shares.share[..., 0])).sum()
    of_average = of_head.sum((1, 2), keepdims=True) / max(1, heads)
    by_unit = differences(Shares(of_head, residuals(even, n), of_average), names, fill=0)
    errors = np.stack([error(residual) for residual in by_unit])
    return np.asarray((differences(shares, names) - quantile * errors > MARGIN).all(0))


def scores_of(
    sums: SumsByName,
    scored: Sequence[Scored],
    kind: AttentionKind = AttentionKind.ONLY,
    layers: tuple[int, ...] = (),
) -> Scores:
    """The scores of heads of that kind of attention, of layers with these numbers; errors are clustered by unit."""
    every_key, words_only = (
        _table({name: sums[f"{of}.{name}"] for name in (*PAIR_SUMS, "pairs")}) for of in KEY_SETS
    )
    entropy = ratio(sums["entropy"], sums["rows"])[..., 0]
    return Scores(tuple(scored), every_key, words_only, entropy, Grid(entropy.shape, kind, layers))


def _table(sums: SumsByName) -> ScoreTable:
    """The scores by the sums of patterns."""
    n, residual = sums["n"], residuals(sums["weight"], sums["n"])
    return ScoreTable(
        **_means({name: values.sum(0) for name, values in sums.items()}),
        se=error(residual),
        n=n.sum(0).astype(np.int64),
        pairs=sums["pairs"].sum(0).astype(np.int64),
        effective_pairs=effective(n),
        residual=residual,
    )


def _means(total: SumsByName) -> dict[str, FloatArray]:
    """The columns of a table that labels need, by sums over all units. Shape: each [..., layer, head, pattern]."""
    weight, n = total["weight"], total["n"]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = {"score": weight / n, "chance": total["chance"] / n, "itself": total["itself"] / n}
        return means | {"share": weight / total["whole"]}


def labels_of(
    scores: Scores,
    sums: SumsByName,
    reading: AttentionView,
    threshold: float,
    seed: int,
    *,
    by_pair: bool = True,
) -> Labels:
    """Label every head, and measure how sure labels are, by sums of pairs or blocks of pairs, or of one input's words.

    Without sums, as of a model with too many heads, habits and the stability of labels are not measured.
    """
    drawn = "pairs" if by_pair else "words"
    if not sums or scores.entropy.size > MOST_HEADS:
        return Labels(scores, reading, threshold, drawn=drawn)
    scored, table = scores.scored, scores.table(reading.among_words)
    names, members = habits_of(special=not reading.among_words)
    of_patterns = {name: sums[f"{KEY_SETS[reading.among_words]}.{name}"] for name in PAIR_SUMS}
    on, even, words = sums["on"] @ members, sums["even"] @ members, sums["n"]
    shares = shares_of(on.sum(0), even.sum(0), words.sum(0))
    qualify = np.asarray((differences(shares, names) > MARGIN).all(0))
    if by_pair:
        qualify &= significant(shares, names, on, even, words)
    habit = best_habit(shares, qualify)

    def codes(table: ScoreTable, habits: IntArray) -> IntArray:
        """What each head does: a pattern's place, that of a habit behind them, or -1. Shape: [..., layer, head]."""
        pattern = followed(scored, table, threshold, among_words=reading.among_words)
        does = np.where(pattern >= 0, pattern, np.where(habits >= 0, len(scored) + habits, -1))
        rests_on = resting_on(table, scores.patterns)
        return np.where(rests_on >= 0, rests_on, does)

    code, count = codes(table, habit), len(on)
    holds, unchanged = np.zeros(habit.shape), np.zeros(habit.shape)
    for times in resamples(count, seed, max(1, min(_AT_ONCE, _CELLS // on[0].size))):
        again = shares_of(*(np.tensordot(times, values, 1) for values in (on, even, words)))
        above = np.asarray((differences(again, names) > MARGIN).all(0))
        holds += np.take_along_axis(above, habit.clip(0)[None, ..., None], -1)[..., 0].sum(0)
        means: dict[str, Any] = dict(
            _means({name: np.tensordot(times, of_patterns[name], 1) for name in PAIR_SUMS})
        )
        drawn_table = replace(table, **means)
        unchanged += (codes(drawn_table, best_habit(again, above)) == code).sum(0)
    habit = np.where(holds >= STAYS * RESAMPLINGS, habit, -1)
    code = codes(table, habit)
    # A label rests on units with an eligible query of its pattern: with too few of these, `stays` is NaN
    eligible = np.take_along_axis(
        (of_patterns["n"] > 0).sum(0), code.clip(0, len(scored) - 1)[..., None], -1
    )[..., 0]
    too_few = np.where(code < len(scored), eligible, count) < FEWEST
    stays = np.where((code < 0) | too_few, np.nan, unchanged / RESAMPLINGS)
    statements = Habits(names, shares.share, shares.chance, shares.average[0, 0], habit)
    classes = class_shares(sums, scores, reading, by_pair=by_pair)
    return Labels(scores, reading, threshold, statements, stays, drawn, count, classes)


def class_shares(
    sums: SumsByName, scores: Scores, reading: AttentionView, *, by_pair: bool
) -> tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray]:
    """The names of all classes, their shares, errors (none of one input's words), and shares of even attention.

    Patterns of one's own have their scores, beside the classes.
    """
    table, words = scores.table(reading.among_words), slice(len(SPECIAL_CLASSES), len(CLASSES))
    custom = [place for place, name in enumerate(scores.patterns) if name not in _BUILT_IN]
    parts = (
        _shares(sums["on"][..., words], sums["even"][..., words], sums["n"]),
        tuple(values[..., custom] for values in (table.score, table.se, table.chance)),
        _shares(sums["special"], sums["even_special"], sums["all_words"]),
    )
    share, se, chance = (np.concatenate(values, -1) for values in zip(*parts, strict=True))
    names = (*WORD_CLASSES, *(scores.patterns[place] for place in custom), *SPECIAL_CLASSES)
    return names, share, se if by_pair else np.full_like(se, np.nan), chance


def _shares(
    on: FloatArray, even: FloatArray, words: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean shares, their errors, and shares of even attention.

    Shape: `on` and `even` [unit, layer, head, class], `words` [unit, layer, head, 1] -> [layer, head, class] each.
    """
    return ratio(on, words), error(residuals(on, words)), ratio(even, words)
