"""Small tables of scores, written out, and heads that do what a test says."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnscan.results.grid import Grid
from attnscan.results.heads import HeadScores
from attnscan.results.label_rules import Scored
from attnscan.results.scores import Habits, Labels, Scores, ScoreTable
from attnscan.results.signature import DEFAULT_VIEW, AttentionView, Signature
from attnscan.scoring.labels import habits_of

PATTERNS = ("next-word", "identical", "cross-sentence", "delimiter")
SCORED = (
    Scored("next-word"),
    Scored("identical", excludes_self=True),
    Scored("cross-sentence", part_of="identical"),
    Scored("delimiter"),
)
SIGNATURE = Signature(
    model="toy",
    revision=None,
    attnscan="0",
    torch="0",
    transformers=None,
    dtype="float32",
    device="cpu",
    unit="token",
    pattern_set="1",
    input_hash="0",
    read_by="tap",
    predictive="off",
)
HABITS = ("next-word", "next-3", "even")
# Heads that follow next-word, have the habits next-3 and even, and do nothing; the last rests, and
# follows identical
ABOVE = [[0.9, 0, 0, 0], [0.2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0.4, 0, 0.5]]
WINNERS = (0, 1, 2, -1, 2)


def table_of(above: list[list[float]], share: float = 1.0, self_share: float = 0.0) -> ScoreTable:
    """One layer, by how far each score is above a chance of 0.2.

    `self_share` of each score is a word's weight on itself.
    """
    score = 0.2 + 0.8 * np.array([above], dtype=float)
    counts = np.where(np.isnan(score), 0, 5)
    return ScoreTable(
        score=score,
        chance=np.where(np.isnan(score), np.nan, 0.2),
        se=np.full_like(score, np.nan),
        n=counts,
        pairs=counts,
        clusters=counts,
        effective_pairs=counts.astype(float),
        share=np.full_like(score, share),
        self_mass=self_share * score,
    )


def equal_scores(scored: tuple[Scored, ...], table: ScoreTable) -> Scores:
    """Scores that are the same with special tokens and without."""
    shape = table.score.shape[:2]
    return Scores(
        scored=scored,
        every_key=table,
        words_only=table,
        means={"entropy": np.ones(shape)},
        grid=Grid(shape),
    )


def scores_of(above: list[list[float]], share: float = 1.0, self_share: float = 0.0) -> Scores:
    """Scores of one layer for four patterns, by how far each is above chance."""
    return equal_scores(SCORED, table_of(above, share, self_share))


def labels_of(
    above: list[list[float]] = ABOVE,
    winners: Sequence[int] | None = None,
    label_stability: Sequence[float] | None = None,
    reading: AttentionView = DEFAULT_VIEW,
    threshold: float = 0.25,
) -> Labels:
    """What heads do by these scores and, with `winners`, by habits."""
    habits = None
    if winners is not None:
        share = np.array(
            [[[0.7, 0.6, 0.1], [0.3, 0.4, 0.2], [0.1, 0.1, 0.8], [0.1, 0.1, 0.5], [0.0, 0.1, 0.1]]]
        )
        habits = Habits(
            names=HABITS,
            share=share,
            chance=np.zeros_like(share),
            average=np.array([0.1, 0.2, 0.5]),
            winner=np.array([winners]),
        )
    stability = None
    if label_stability is not None:
        stability = np.array([label_stability], dtype=float)
    return Labels(
        scores=scores_of(above, share=0.5),
        reading=reading,
        threshold=threshold,
        habits=habits,
        label_stability=stability,
        resampled="pairs",
        units=7,
    )


def result_of(above: list[list[float]], share: float = 1.0, self_share: float = 0.0) -> HeadScores:
    """One input by weight among words, of heads of one layer that follow patterns or nothing."""
    scores = scores_of(above, share, self_share)
    labels = Labels(scores, DEFAULT_VIEW, resampled="words")
    return HeadScores(
        signature=SIGNATURE,
        scores_by={"weight": scores},
        labels_by={DEFAULT_VIEW: labels},
        units=("a",),
        sentence=(0,),
    )


def ranking_of(
    scores: Sequence[float] = (0.5, 0.49, 0.2),
    *,
    scored: Scored = Scored("next-word"),  # noqa: B008
    pairs: int = 10,
    error: float | None = 0.02,
    ranked_by: Sequence[float] | None = None,
) -> HeadScores:
    """Heads of one layer by their scores on one pattern.

    Each difference of two has the same error, or none is known. With `ranked_by`, heads are ranked
    by these scores, of other pairs.
    """
    score = np.reshape(scores, (1, -1, 1))
    counts = np.where(np.isnan(score), 0, pairs)
    residual = None
    if error is not None:
        residual = error / 2**0.5 * np.eye(len(scores))[:, None, :, None]
    table = ScoreTable(
        score=score,
        chance=np.full_like(score, 0.1),
        se=np.full_like(score, 0.01),
        n=9 * counts,
        pairs=counts,
        clusters=counts,
        effective_pairs=counts.astype(float),
        share=np.ones_like(score),
        self_mass=0.75 * score,
        residual=residual,
    )
    by_pairs = equal_scores((scored,), table)
    result = HeadScores(replace(SIGNATURE, pairs_read=pairs), {"weight": by_pairs})
    if ranked_by is None:
        return result
    other = replace(table, score=np.reshape(ranked_by, score.shape))
    return replace(result, ranked_by=replace(by_pairs, words_only=other))


def doing(layers: int, heads: int, kinds: int) -> HeadScores:
    """Heads that do so many things, four patterns first.

    All labels are unsure, and the last head does nothing.
    """
    patterns = ("next-word", "previous-word", "identical", "bag-of-words")
    grid = (layers, heads)
    number = (np.arange(layers * heads) % kinds).reshape(grid)
    is_pattern = number[..., None] == np.arange(len(patterns))
    is_pattern[-1, -1] = False
    score = np.where(is_pattern, 0.92, 0.2)
    counts = np.full(score.shape, 5)
    table = ScoreTable(
        score=score,
        chance=np.full(score.shape, 0.2),
        se=np.full(score.shape, np.nan),
        n=counts,
        pairs=counts,
        clusters=counts,
        effective_pairs=counts.astype(float),
        share=np.ones(score.shape),
        self_mass=np.zeros(score.shape),
    )
    scores = equal_scores(tuple(map(Scored, patterns)), table)
    names, _ = habits_of()
    winner = np.where(number < len(patterns), -1, number - len(patterns))
    winner[-1, -1] = -1
    habits = Habits(
        names=names,
        share=np.full((*grid, len(names)), 0.456),
        chance=np.zeros((*grid, len(names))),
        average=np.full(len(names), 0.123),
        winner=winner,
    )
    labels = Labels(
        scores, DEFAULT_VIEW, habits=habits, label_stability=np.full(grid, 0.5), units=9
    )
    signature = replace(SIGNATURE, pairs_read=9)
    return HeadScores(signature, {"weight": scores}, {DEFAULT_VIEW: labels})
