"""Groups of heads and their map, from divergences written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_results import SIGNATURE, labels_of

from attnscan.results.comparison import Similarity


def _apart(divergence: np.ndarray, within: float = 0.1) -> Similarity:
    return Similarity(divergence, divergence, labels_of(), 1, SIGNATURE, within)


def test_the_map_shows_distances_of_a_plane_as_they_are() -> None:
    points = np.random.default_rng(0).random((6, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    places, share = _apart(squared).map
    assert_allclose(((places[:, None] - places[None]) ** 2).sum(-1), squared, atol=1e-9)
    assert share == pytest.approx(1)
    assert np.isnan(_apart(np.zeros((3, 3))).map[1])


def test_average_linkage_by_hand() -> None:
    """0 and 1 join at 1; 2 is at (3 + 4) / 2 from them, and 3 far away."""
    apart = np.array([[0, 1, 3, 9], [1, 0, 4, 9], [3, 4, 0, 9], [9, 9, 9, 0]], dtype=float)
    assert _apart(apart, 3.4).groups == [[0, 1], [2], [3]]
    assert _apart(apart, 3.6).groups == [[0, 1, 2], [3]]
    assert _apart(apart, 100).groups == [[0, 1, 2, 3]]
    assert _apart(np.zeros((1, 1))).groups == [[0]]
