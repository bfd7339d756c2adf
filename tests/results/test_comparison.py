"""The rank correlation of two models' scores, as Spearman has it."""

from __future__ import annotations

import numpy as np
import pytest
from small_results import PATTERNS, SIGNATURE, result_of

from attnscan.results.comparison import Comparison, places


def _compared(one: list[float], other: list[float]) -> float:
    """The rank correlation of heads with these scores for next-word."""
    scores = [result_of([[score, 0, 0, 0] for score in column]).scores for column in (one, other)]
    grid = (1, len(one))
    unknown = np.full(grid, np.nan)
    error = np.full((*grid, len(PATTERNS)), np.nan)
    found = Comparison(scores[0], scores[1], error, places(grid), unknown, "place", 5, (SIGNATURE, SIGNATURE))
    return found.correlation("next-word")


def test_ranks_as_spearman_has_them() -> None:
    """Equal values share their mean rank: here 4, 1, 4, 2, 4 and 2.5, 1, 2.5, 4, 5."""
    ranks = np.array([[4, 1, 4, 2, 4], [2.5, 1, 2.5, 4, 5]])
    expected = np.corrcoef(ranks)[0, 1]
    assert 0.3 < expected < 0.6
    assert _compared([0.3, 0.1, 0.3, 0.2, 0.3], [0.2, 0.1, 0.2, 0.4, 0.9]) == pytest.approx(expected, rel=1e-12)
    assert _compared([0.3, 0.1, 0.2], [0.9, 0.7, 0.8]) == 1 and _compared([0.3, 0.1, 0.2], [0.1, 0.9, 0.8]) == -1


def test_heads_without_a_score_do_not_count() -> None:
    nan = float("nan")
    assert _compared([0.3, nan, 0.1, 0.2], [0.9, 0.1, 0.7, 0.8]) == 1
    assert _compared([0.3, 0.1, 0.2], [0.9, nan, 0.8]) == 1


@pytest.mark.parametrize(
    "other", [[0.5, 0.5, 0.5], [0.5, float("nan"), float("nan")], [float("nan")] * 3], ids=["no-spread", "one", "none"]
)
def test_without_spread_there_is_no_correlation(other: list[float]) -> None:
    assert np.isnan(_compared([0.3, 0.1, 0.2], other))
