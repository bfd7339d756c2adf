"""Ranks, as a rank correlation needs them."""

from __future__ import annotations

import numpy as np

from attnscan.results.comparison import ranked


def test_ranks_as_spearman_has_them() -> None:
    assert ranked(np.array([3.0, 1, 3, 2, 3])).tolist() == [4, 1, 4, 2, 4]
