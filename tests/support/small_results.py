"""Small tables of scores, written out."""

from __future__ import annotations

import numpy as np

from attnscan.results.behaviour import Labels
from attnscan.results.classification import Classification
from attnscan.results.scores import Scores, ScoreTable
from attnscan.results.signature import Signature
from attnscan.results.terms import Scored

PATTERNS = ("next-word", "identical", "cross-sentence", "delimiter")
SCORED = (
    Scored("next-word"),
    Scored("identical", of_others=True),
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


def table_of(above: list[list[float]], share: float = 1.0, itself: float = 0.0) -> ScoreTable:
    """One layer; chance is 0.2 everywhere, so that a score is 0.2 + 0.8 x above; `itself` is a share of the score."""
    score = 0.2 + 0.8 * np.array([above], dtype=float)
    counts = np.where(np.isnan(score), 0, 5)
    chance = np.where(np.isnan(score), np.nan, 0.2)
    nothing, shares = np.full_like(score, np.nan), np.full_like(score, share)
    numbers = counts, counts, counts.astype(float)
    return ScoreTable(score, chance, nothing, *numbers, shares, itself * score, share_chance=np.full_like(score, 0.4))


def result_of(
    above: list[list[float]], share: float = 1.0, words: list[list[float]] | None = None, itself: float = 0.0
) -> Classification:
    table = table_of(above, share, itself)
    scores = Scores(SCORED, table, table_of(words or above, share, itself), np.ones((1, len(above))))
    return Classification(("a",), (0,), Labels(scores, False), SIGNATURE)
