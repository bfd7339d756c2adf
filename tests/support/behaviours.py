"""Five heads of one layer that do what a test says: two follow a pattern, the others have statements or none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from small_results import result_of

from attnscan.results.behaviour import Behaviours
from attnscan.results.labels import Labels, Stability
from attnscan.results.statement import AVERAGE, Statements

NAMES = ("next-word", "next-3", "even")
STATED = ("next-3", "next-word", "even", AVERAGE, AVERAGE)
# Patterns: next-word, identical, cross-sentence (a part of identical), delimiter; chance is 0.2 everywhere
ABOVE = [[0.9, 0, 0, 0], [0.2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0.5]]


def behaviours_of(
    statement: Sequence[str] = STATED, stability: Sequence[float] | None = None, stays: Sequence[float] = (1,) * 5
) -> Behaviours:
    """By attention weights, special tokens included; the average head gives 0.1, 0.2 and 0.5 to the candidates."""
    scores = result_of(ABOVE).scores
    share = np.array([[[0.7, 0.6, 0.1], [0.3, 0.4, 0.2], [0.1, 0.1, 0.8], [0.1, 0.1, 0.5], [0.0, 0.1, 0.1]]])
    winner = np.array([[NAMES.index(name) if name in NAMES else -1 for name in statement]])
    statements = Statements(NAMES, share, share * 0, np.array([0.1, 0.2, 0.5]), winner, np.array([stays], dtype=float))
    kept = None if stability is None else Stability(*[np.array([stability], dtype=float)] * 2)
    return Behaviours(Labels(scores, False, stability=kept), statements, special=True)
