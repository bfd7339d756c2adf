"""Small tables of scores, written out."""

from __future__ import annotations

import numpy as np

from attnscan.results.classification import Classification
from attnscan.results.scores import Scores, ScoreTable
from attnscan.results.signature import Signature

PATTERNS = ("next-word", "identical", "cross-sentence", "delimiter")
PART_OF = (None, None, "identical", None)
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


def table_of(above: list[list[float]], share: float = 1.0) -> ScoreTable:
    """One layer; chance is 0.2 everywhere, so that a score is 0.2 + 0.8 x above."""
    score = 0.2 + 0.8 * np.array([above], dtype=float)
    counts = np.where(np.isnan(score), 0, 5)
    chance = np.where(np.isnan(score), np.nan, 0.2)
    return ScoreTable(score, chance, np.full_like(score, np.nan), counts, counts, np.full_like(score, share))


def result_of(above: list[list[float]], share: float = 1.0, words: list[list[float]] | None = None) -> Classification:
    table = table_of(above, share)
    scores = Scores(PATTERNS, PART_OF, table, table_of(words or above, share), np.ones((1, len(above))))
    return Classification(("a",), (0,), scores, SIGNATURE)
