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


def table_of(above: list[list[float]], share: float = 1.0, itself: float = 0.0) -> ScoreTable:
    """One layer; chance is 0.2 everywhere, so that a score is 0.2 + 0.8 x above; `itself` is a
    share of the score.
    """
    score = 0.2 + 0.8 * np.array([above], dtype=float)
    counts = np.where(np.isnan(score), 0, 5)
    chance = np.where(np.isnan(score), np.nan, 0.2)
    nothing = np.full_like(score, np.nan)
    shares = np.full_like(score, share)
    return ScoreTable(
        score, chance, nothing, counts, counts, counts.astype(float), shares, itself * score
    )


def scores_of(above: list[list[float]], share: float = 1.0, itself: float = 0.0) -> Scores:
    """Scores that are the same with special tokens and without."""
    table = table_of(above, share, itself)
    return Scores(SCORED, table, table, np.ones((1, len(above))), Grid((1, len(above))))


def labels_of(
    above: list[list[float]] = ABOVE,
    winners: Sequence[int] | None = None,
    stays: Sequence[float] | None = None,
    reading: AttentionView = DEFAULT_VIEW,
    threshold: float = 0.25,
) -> Labels:
    """What heads do by these scores and, with `winners`, habits: the average head gives 0.1, 0.2
    and 0.5 to each.
    """
    statements = None
    if winners is not None:
        share = np.array(
            [[[0.7, 0.6, 0.1], [0.3, 0.4, 0.2], [0.1, 0.1, 0.8], [0.1, 0.1, 0.5], [0.0, 0.1, 0.1]]]
        )
        statements = Habits(
            HABITS, share, share * 0, np.array([0.1, 0.2, 0.5]), np.array([winners])
        )
    kept = None if stays is None else np.array([stays], dtype=float)
    return Labels(scores_of(above, share=0.5), reading, threshold, statements, kept, "pairs", 7)


def result_of(above: list[list[float]], share: float = 1.0, itself: float = 0.0) -> HeadScores:
    """One input by weight among words, of heads of one layer that follow patterns or nothing."""
    labels = Labels(scores_of(above, share, itself), DEFAULT_VIEW, resampled="words")
    return HeadScores(
        SIGNATURE, {"weight": labels.scores}, {DEFAULT_VIEW: labels}, units=("a",), sentence=(0,)
    )


def ranking_of(
    scores: Sequence[float] = (0.5, 0.49, 0.2),
    *,
    scored: Scored = Scored("next-word"),  # noqa: B008
    pairs: int = 10,
    error: float | None = 0.02,
    ranked_by: Sequence[float] | None = None,
) -> HeadScores:
    """Heads of one layer by their scores on one pattern; each difference of two has the same error,
    or none is known.

    With `ranked_by`, they are ranked by these scores, of other pairs.
    """
    score = np.array([[[each] for each in scores]])
    counts = np.where(np.isnan(score), 0, pairs)
    residual = None if error is None else error / 2**0.5 * np.eye(len(scores))[:, None, :, None]
    numbers = 9 * counts, counts, counts.astype(float)
    rest = (np.full_like(score, 0.01), *numbers, np.ones_like(score), 0.75 * score, residual)
    table = ScoreTable(score, np.full_like(score, 0.1), *rest)
    by_pairs = Scores((scored,), table, table, np.ones((1, len(scores))), Grid((1, len(scores))))
    result = HeadScores(replace(SIGNATURE, pairs_read=pairs), {"weight": by_pairs})
    if ranked_by is None:
        return result
    other = replace(table, score=np.reshape(ranked_by, score.shape))
    return replace(result, ranked_by=replace(by_pairs, words_only=other))


def doing(layers: int, heads: int, kinds: int) -> HeadScores:
    """Heads that do so many things, four patterns first; all labels are unsure, the last head does
    nothing.
    """
    names, _ = habits_of(special=False)
    patterns = ("next-word", "previous-word", "identical", "bag-of-words")
    count = layers * heads
    number = np.arange(count) % kinds
    above = np.where(number[:, None] == np.arange(len(patterns)), 0.9, 0.0)
    above[-1] = 0
    flat = {
        name: values
        for name, values in vars(table_of(above.tolist())).items()
        if values is not None
    }
    table = ScoreTable(
        **{name: values.reshape(layers, heads, len(patterns)) for name, values in flat.items()}
    )
    scores = Scores(
        tuple(map(Scored, patterns)), table, table, np.ones((layers, heads)), Grid((layers, heads))
    )
    winner = np.where(number < len(patterns), -1, number - len(patterns))
    winner[-1] = -1
    share = np.full((layers, heads, len(names)), 0.456)
    statements = Habits(
        names, share, 0 * share, np.full(len(names), 0.123), winner.reshape(layers, heads)
    )
    labels = Labels(
        scores,
        DEFAULT_VIEW,
        habits=statements,
        label_stability=np.full((layers, heads), 0.5),
        units=9,
    )
    return HeadScores(replace(SIGNATURE, pairs_read=9), {"weight": scores}, {DEFAULT_VIEW: labels})
