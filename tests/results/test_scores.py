"""Scores above chance."""

from __future__ import annotations

import numpy as np
import pytest

from attnscan.results.scores import ScoreTable, best_first


def test_above_chance_is_zero_at_chance_and_one_at_best_and_nan_where_chance_is_all() -> None:
    nothing = np.full((1, 1, 3), np.nan)
    table = ScoreTable(np.array([[[0.2, 1, 1]]]), np.array([[[0.2, 0.2, 1]]]), *[nothing] * 6)
    assert table.above_chance[0, 0, :2].tolist() == pytest.approx([0, 1])
    assert np.isnan(table.above_chance[0, 0, 2])


def test_of_equal_heads_the_first_comes_first_and_those_without_a_score_nowhere() -> None:
    assert best_first(np.array([[0.5, np.nan, 0.7], [0.5, 0.7, np.nan]])).tolist() == [2, 4, 0, 3]
