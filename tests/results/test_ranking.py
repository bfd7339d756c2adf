"""The order of heads."""

from __future__ import annotations

import numpy as np
from small_results import result_of


def test_ranking_puts_the_best_first_and_nan_last() -> None:
    result = result_of([[0.1, 0.9, 0, 0], [0.5, 0.2, 0, 0], [np.nan, np.nan, np.nan, np.nan], [0.3, 0, 0, 0.6]])
    assert result.ranking("next-word").tolist() == [1, 3, 0, 2]
    assert result.ranking().tolist() == [0, 3, 1, 2]
