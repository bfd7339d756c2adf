"""Every head's scores, habit and label from sums of pairs or of words, and how sure the label is.

Numpy alone. A habit sets a head apart from the average head of its model. For each head and habit,
over all words: M is its mean share of attention, E that under even attention, A the mean of M over
all heads. A habit qualifies if the odds of M are at least 1.5 times those of A and of E; a head has
the one with the largest relative entropy of M to A, if that qualifies in 95 % of resamples.

What is resampled are groups of pairs and, in these, pairs; pairs alone where there are too few
groups; of one input, its words. A resample's label follows the rules of the label itself: a head
rests on special tokens, else follows a pattern, else has a habit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscan.results.columns import MEAN_COLUMNS
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.habits import CLASSES, HABITS, N_CLASS_SUMS, SPECIAL_CLASSES, WORD_CLASSES
from attnscan.results.label_rules import Scored
from attnscan.results.scores import (
    MOST_HEADS,
    RESAMPLINGS,
    STABLE_SHARE,
    ClassShares,
    FloatArray,
    Habits,
    IntArray,
    Labels,
    Proportion,
    Scores,
    ScoreTable,
    followed,
    resting_on,
)
from attnscan.results.signature import AttentionView
from attnscan.scoring.blocks import (
    KEY_SETS,
    PAIR_SUMS,
    Groups,
    PairSums,
    SumsByName,
    effective,
    error,
    ratio,
    resamples,
    residuals,
)
from attnscan.scoring.cross import ALL_PATTERNS

BoolArray = NDArray[np.bool_]
ODDS = 1.5
"""How many times the average head's odds, and those of even attention, the odds of a habit's share
must be."""
MIN_SHARE = 0.10
"""A habit's share is above this."""
MIN_REST = 1e-4
"""What is left beside a share counts as so much at least: less may be the error of float32 sums."""
MIN_UNITS = 5
"""With fewer words or pairs than this, it is not told whether a label stays."""
MIN_GROUPS = 5
"""With fewer groups of `MIN_UNITS` pairs than this, pairs alone are resampled."""
_BUILT_IN = frozenset(pattern.id for pattern in ALL_PATTERNS)
# How many resamples are worked on together, and how many of these times heads times habits.
_RESAMPLES_AT_ONCE = 50
_CELLS_AT_ONCE = 1 << 22


def habits_of() -> tuple[tuple[str, ...], FloatArray]:
    """The habits, and 1 for each column that is part of one.

    Shape: the second [column, habit].
    """
    members = np.zeros((N_CLASS_SUMS, len(HABITS)))
    for place, columns in enumerate(HABITS.values()):
        members[list(columns), place] = 1
    return tuple(HABITS), members


class Shares(NamedTuple):
    """Shares of attention by habit, from sums over units. Shape: each [..., layer, head, habit]."""

    share: FloatArray
    """M"""
    chance: FloatArray
    """E"""
    average: FloatArray
    """A, over the heads that have an M. Shape: [..., 1, 1, habit]."""


class HabitSums(NamedTuple):
    """Attention by habit, the unit first in every shape: [unit, layer, head, habit]."""

    names: tuple[str, ...]
    mass: FloatArray
    """Attention on the keys of each habit."""
    uniform_mass: FloatArray
    """The same under even attention."""
    words: FloatArray
    """How many words there are. Shape: [unit, layer, head, 1]."""

    def shares(self) -> Shares:
        """The shares over all units."""
        return _shares_of(self.mass.sum(0), self.uniform_mass.sum(0), self.words.sum(0))

    def resampled_shares(self, times: FloatArray) -> Shares:
        """The shares of each resample. Shape: `times` [resample, unit]."""
        return _shares_of(
            np.tensordot(times, self.mass, 1),
            np.tensordot(times, self.uniform_mass, 1),
            np.tensordot(times, self.words, 1),
        )


def _shares_of(mass: FloatArray, uniform_mass: FloatArray, words: FloatArray) -> Shares:
    """Divide sums of attention by the number of words, and average over heads."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = mass / words
        heads = (~np.isnan(share)).sum((-3, -2), keepdims=True)
        average = np.nansum(share, (-3, -2), keepdims=True) / heads
        return Shares(share=share, chance=uniform_mass / words, average=average)


def qualifying(shares: Shares, names: tuple[str, ...]) -> BoolArray:
    """Which habits set a head apart: where it has them more than the average head and by chance.

    `same-keys` must also be above `even`, which has some of the same keys.
    Shape: [..., layer, head, habit].
    """
    share = shares.share
    qualify = _has_odds(share, shares.average) & _has_odds(share, shares.chance)
    same_keys = names.index("same-keys")
    even = names.index("even")
    qualify[..., same_keys] &= _has_odds(share[..., same_keys], share[..., even])
    return np.asarray(qualify & (share > MIN_SHARE))


def _has_odds(share: FloatArray, reference: FloatArray) -> BoolArray:
    """Whether the odds of a share are so many times those of another; false for NaN."""
    rest = (1 - share).clip(MIN_REST)
    rest_of_reference = (1 - reference).clip(MIN_REST)
    return np.asarray(share * rest_of_reference > ODDS * reference * rest)


def best_habit(shares: Shares, qualify: BoolArray) -> IntArray:
    """The habit that tells each head best from the average head, or -1 where none qualifies.

    That is the one with the largest M ln(M/A) + (1-M) ln((1-M)/(1-A)). Shape: [..., layer, head].
    """
    on_habit = _relative_entropy(shares.share, shares.average)
    elsewhere = _relative_entropy(1 - shares.share, 1 - shares.average)
    gain = np.where(qualify, on_habit + elsewhere, -np.inf)
    return np.where(qualify.any(-1), gain.argmax(-1), -1)


def _relative_entropy(share: FloatArray, average: FloatArray) -> FloatArray:
    """The term p ln(p/q) of a share; 0 ln 0 is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(share > 0, share * np.log(share / average), 0.0)


def scores_of(
    sums: SumsByName,
    scored: Sequence[Scored],
    kind: AttentionKind = AttentionKind.ONLY,
    layers: tuple[int, ...] = (),
    grouped: PairSums | None = None,
) -> Scores:
    """The scores of heads of that kind of attention, of layers with these numbers.

    Errors are clustered by unit or, where groups of pairs were named and are enough, by group.
    """
    groups = None if grouped is None else enough_groups(grouped)
    clusters = None
    if grouped is not None and groups is not None and groups.named:
        clusters = groups.sums(grouped.sums)
    means = {}
    for column in MEAN_COLUMNS:
        means[column.name] = ratio(sums[column.name], sums["rows"])[..., 0]
    return Scores(
        scored=tuple(scored),
        every_key=_table(sums, "every_key", clusters),
        words_only=_table(sums, "words_only", clusters),
        means=means,
        grid=Grid(means["entropy"].shape, kind, layers),
        alignment=_alignment(sums, clusters),
    )


def _alignment(sums: SumsByName, clusters: SumsByName | None) -> dict[str, Proportion]:
    """How well heads of cross attention align words, with errors by cluster; nothing of others.

    The alignment error rate is 1 - 2·|right| / (|links| + |gold|): every gold link is a sure one.
    Source: Och and Ney, Computational Linguistics 29 (2003); coverage is what Wu et al.,
    arXiv 1609.08144 (2016), take the logarithm of, as a mean over the source.
    """
    measured = {}
    if "covered" in sums:
        measured["coverage"] = _proportion(sums, clusters, {"covered": 1}, {"source_units": 1})
    if "gold_links" in sums:
        both = {"links": 1, "gold_links": 1}
        wrong = {**both, "right_links": -2}
        right = {"right_links": 1}
        measured["precision"] = _proportion(sums, clusters, right, {"links": 1})
        measured["recall"] = _proportion(sums, clusters, right, {"gold_links": 1})
        measured["aer"] = _proportion(sums, clusters, wrong, both)
    return measured


def _proportion(
    sums: SumsByName,
    clusters: SumsByName | None,
    part: Mapping[str, int],
    whole: Mapping[str, int],
) -> Proportion:
    """A part of a whole, which are sums by their names, each so many times."""
    total = _added(sums, part)
    n = _added(sums, whole)
    cluster_total = total if clusters is None else _added(clusters, part)
    cluster_n = n if clusters is None else _added(clusters, whole)
    return Proportion(
        value=ratio(total, n),
        se=error(residuals(cluster_total, cluster_n)),
        clusters=(cluster_n > 0).sum(0),
        effective_pairs=effective(cluster_n),
    )


def _added(sums: SumsByName, names: Mapping[str, int]) -> FloatArray:
    """Some sums together, each so many times. Shape: [unit, layer, head]."""
    return np.asarray(sum(times * sums[name][..., 0] for name, times in names.items()))


def _pattern_sums(
    sums: SumsByName, key_set: str, names: Sequence[str] = PAIR_SUMS
) -> dict[str, FloatArray]:
    """The sums of patterns over one of `KEY_SETS`, by their names without its prefix."""
    return {name: sums[f"{key_set}.{name}"] for name in names}


def _without_rare(sums: SumsByName) -> dict[str, FloatArray]:
    """Leave patterns that fewer than `MIN_UNITS` units have without a score.

    `predictive` is by default measured on a few pairs. A resample may have a single one of them,
    perhaps with one word, whose score says nothing. Shape: each [unit, layer, head, pattern].
    """
    n = sums["n"]
    rare = (n > 0).sum(0) < MIN_UNITS
    return {**sums, "n": np.where(rare, np.nan, n)}


def enough_groups(grouped: PairSums) -> Groups | None:
    """The groups that blocks of pairs are of; None where too few of them have enough pairs."""
    groups = Groups.among(grouped)
    pairs = groups.sums(grouped.sums)["every_key.pairs"].max((1, 2, 3))
    return groups if (pairs >= MIN_UNITS).sum() >= MIN_GROUPS else None


def _table(sums: SumsByName, key_set: str, clusters: SumsByName | None) -> ScoreTable:
    """The scores over one of `KEY_SETS` by the sums of patterns, with errors by cluster."""
    sums = _pattern_sums(sums, key_set, (*PAIR_SUMS, "pairs"))
    by_cluster = sums if clusters is None else _pattern_sums(clusters, key_set)
    residual = residuals(by_cluster["weight"], by_cluster["n"])
    means = _means({name: values.sum(0) for name, values in sums.items()})
    return ScoreTable(
        score=means.score,
        chance=means.chance,
        share=means.share,
        self_mass=means.self_mass,
        se=error(residual),
        n=sums["n"].sum(0).astype(np.int64),
        pairs=sums["pairs"].sum(0).astype(np.int64),
        clusters=(by_cluster["n"] > 0).sum(0),
        effective_pairs=effective(by_cluster["n"]),
        residual=residual,
    )


class _Means(NamedTuple):
    """The columns of a score table that labels need. Shape: each [..., layer, head, pattern]."""

    score: FloatArray
    chance: FloatArray
    share: FloatArray
    self_mass: FloatArray


def _means(totals: SumsByName) -> _Means:
    """Divide sums over all units. Shape: each [..., layer, head, pattern]."""
    weight = totals["weight"]
    n = totals["n"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return _Means(
            score=weight / n,
            chance=totals["chance"] / n,
            share=weight / totals["whole"],
            self_mass=totals["itself"] / n,
        )


def _resampled_table(table: ScoreTable, sums: SumsByName, times: FloatArray) -> ScoreTable:
    """The table with what labels need of each resample. Shape: `times` [resample, unit]."""
    means = _means({name: np.tensordot(times, sums[name], 1) for name in PAIR_SUMS})
    return replace(
        table,
        score=means.score,
        chance=means.chance,
        share=means.share,
        self_mass=means.self_mass,
    )


def labels_of(
    scores: Scores,
    sums: SumsByName,
    reading: AttentionView,
    threshold: float,
    seed: int,
    *,
    by_pair: bool = True,
    grouped: PairSums | None = None,
) -> Labels:
    """Label every head, and measure how sure labels are, by sums of pairs or of one input's words.

    Sums of pairs may be those of blocks of pairs; `grouped` are the same in blocks by group.
    Without sums, as of a model with too many heads, habits and the stability of labels are not
    measured.
    """
    resampled = "pairs" if by_pair else "words"
    if not sums or len(scores.grid) > MOST_HEADS:
        return Labels(scores, reading, threshold, resampled=resampled)
    groups = None if grouped is None else enough_groups(grouped)
    units = sums if grouped is None or groups is None else grouped.sums
    rules = _LabelRules(scores, reading, threshold)
    names, members = habits_of()
    habit_sums = HabitSums(
        names=names,
        mass=units["on"] @ members,
        uniform_mass=units["even"] @ members,
        words=units["n"],
    )
    pattern_sums = _pattern_sums(units, KEY_SETS[reading.words_only])
    shares = habit_sums.shares()
    habit = best_habit(shares, qualifying(shares, names))
    at_once = max(1, min(_RESAMPLES_AT_ONCE, _CELLS_AT_ONCE // habit_sums.mass[0].size))
    if groups is None:
        drawn = resamples(len(habit_sums.mass), seed, at_once)
    else:
        drawn = groups.resamples(seed, at_once)
    competing = _without_rare(pattern_sums) if by_pair else pattern_sums
    held, unchanged = _count_resamples(rules, habit_sums, competing, habit, drawn)
    habit = np.where(held >= STABLE_SHARE * RESAMPLINGS, habit, -1)
    code = rules.codes(rules.table, habit)
    label_stability = np.where(
        _is_testable(code, pattern_sums["n"]), unchanged / RESAMPLINGS, np.nan
    )
    return Labels(
        scores=scores,
        reading=reading,
        threshold=threshold,
        habits=Habits(
            names=names,
            share=shares.share,
            chance=shares.chance,
            average=shares.average[0, 0],
            winner=habit,
        ),
        label_stability=label_stability,
        resampled=resampled,
        units=_count_units(units) if by_pair else len(habit_sums.mass),
        groups=0 if groups is None else groups.n_groups,
        classes=class_shares(sums, scores, reading, by_pair=by_pair),
    )


def _count_units(sums: SumsByName) -> int:
    """How many pairs there are: blocks may hold several, and a pattern may have none of a pair."""
    blocks = len(sums["n"])
    return max(blocks, int(sums["every_key.pairs"].sum(0).max()))


class _LabelRules(NamedTuple):
    """The rules of a label, for the scores themselves and for those of resamples."""

    scores: Scores
    reading: AttentionView
    threshold: float

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.words_only)

    def codes(self, table: ScoreTable, habits: IntArray) -> IntArray:
        """What each head does, as a number: a pattern's place, a habit's behind these, or -1.

        It rests, else follows a pattern, else has a habit. Shape: [..., layer, head].
        """
        scored = self.scores.scored
        pattern = followed(scored, table, self.threshold)
        habit_code = np.where(habits >= 0, len(scored) + habits, -1)
        code = np.where(pattern >= 0, pattern, habit_code)
        resting_place = resting_on(table, self.scores.patterns)
        return np.where(resting_place >= 0, resting_place, code)

    def same_label(self, codes: IntArray, others: IntArray, habits: Sequence[str]) -> BoolArray:
        """Whether two codes are one label: a pattern and a habit may have the same name.

        Shape: those of the codes.
        """
        names = [*self.scores.patterns, *habits]
        number = np.array([*(names.index(name) for name in names), -1])
        return np.asarray(number[codes] == number[others])


def _count_resamples(
    rules: _LabelRules,
    habit_sums: HabitSums,
    pattern_sums: SumsByName,
    habit: IntArray,
    resamples: Iterator[FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """In how many resamples each head's habit qualifies, and its label is unchanged.

    Shape: `habit` and both results [layer, head], each of `resamples` [resample, unit].
    """
    table = rules.table
    code = rules.codes(table, habit)
    held = np.zeros(habit.shape)
    unchanged = np.zeros(habit.shape)
    place = habit.clip(0)[None, ..., None]
    for times in resamples:
        shares = habit_sums.resampled_shares(times)
        qualify = qualifying(shares, habit_sums.names)
        held += np.take_along_axis(qualify, place, -1)[..., 0].sum(0)
        resampled_table = _resampled_table(table, pattern_sums, times)
        resampled_code = rules.codes(resampled_table, best_habit(shares, qualify))
        unchanged += rules.same_label(resampled_code, code, habit_sums.names).sum(0)
    return held, unchanged


def _is_testable(code: IntArray, n: FloatArray) -> BoolArray:
    """Which labels rest on enough units to tell whether they stay.

    A habit rests on all units, a pattern on those with an eligible query of it. Shape: `code`
    [layer, head], `n` [unit, layer, head, pattern] -> [layer, head].
    """
    patterns = n.shape[-1]
    eligible_units = (n > 0).sum(0)
    place = code.clip(0, patterns - 1)[..., None]
    units_of_pattern = np.take_along_axis(eligible_units, place, -1)[..., 0]
    units = np.where(code < patterns, units_of_pattern, len(n))
    return np.asarray((code >= 0) & (units >= MIN_UNITS))


def class_shares(
    sums: SumsByName, scores: Scores, reading: AttentionView, *, by_pair: bool
) -> ClassShares:
    """The shares of all classes.

    There are no errors of one input's words. Patterns of one's own have their scores, beside the
    classes.
    """
    table = scores.table(reading.words_only)
    words = slice(len(SPECIAL_CLASSES), len(CLASSES))
    own = [place for place, name in enumerate(scores.patterns) if name not in _BUILT_IN]
    own_patterns = ClassShares(
        names=tuple(scores.patterns[place] for place in own),
        share=table.score[..., own],
        se=table.se[..., own],
        chance=table.chance[..., own],
        clusters=table.clusters[..., own],
    )
    parts = (
        _ratios(WORD_CLASSES, sums["on"][..., words], sums["even"][..., words], sums["n"]),
        own_patterns,
        _ratios(SPECIAL_CLASSES, sums["special"], sums["even_special"], sums["all_words"]),
    )
    se = np.concatenate([part.se for part in parts], -1)
    return ClassShares(
        names=tuple(chain.from_iterable(part.names for part in parts)),
        share=np.concatenate([part.share for part in parts], -1),
        se=se if by_pair else np.full_like(se, np.nan),
        chance=np.concatenate([part.chance for part in parts], -1),
        clusters=np.concatenate([part.clusters for part in parts], -1),
    )


def _ratios(
    names: Sequence[str], mass: FloatArray, uniform_mass: FloatArray, words: FloatArray
) -> ClassShares:
    """Mean shares of some classes, their errors, and shares of even attention.

    Shape: `mass` and `uniform_mass` [unit, layer, head, class], `words` [unit, layer, head, 1].
    """
    share = ratio(mass, words)
    return ClassShares(
        names=tuple(names),
        share=share,
        se=error(residuals(mass, words)),
        chance=ratio(uniform_mass, words),
        clusters=np.broadcast_to((words > 0).sum(0), share.shape),
    )
