"""Sums and their standard errors: by hand, and by the formula."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnscan.scoring.sums import DivergenceSums, Sums
from attnscan.studies.effect_sums import EffectSums


def test_errors_are_clustered_by_pair() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 9, 30)
    each = rng.random((30, 2, 2)) * n[:, None, None]
    sums = DivergenceSums.of(2)
    for found, count in zip(each, n, strict=True):
        sums.add(found, int(count))
    mean = each.sum(0) / n.sum()
    assert_allclose(sums.mean(), mean)
    assert_allclose(sums.se(), np.sqrt(((each - mean * n[:, None, None]) ** 2).sum(0)) / n.sum())
    one = DivergenceSums.of(2)
    one.add(each[0], 3)
    assert np.isnan(one.se()).all()


def test_effects_of_the_sums_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 6, 40).astype(float)
    sums = rng.random((40, 4)) * n[:, None]
    kept = EffectSums(4, [(1, (2, 3)), (1, ())])
    kept.add(sums[:25], n[:25])
    kept.add(sums[25:], n[25:])
    control, effect, se = kept.effect(0)
    difference = sums[:, 1] - sums[:, 2:].mean(1)
    means = sums[:, 2:].sum(0) / n.sum()
    assert control == pytest.approx(means.mean())
    assert effect == pytest.approx(difference.sum() / n.sum())
    variance = ((difference - effect * n) ** 2).sum() / n.sum() ** 2 + means.var(ddof=1) / 2
    assert se == pytest.approx(variance**0.5)
    assert np.isnan(kept.effect(1)).all()


def test_standard_error_of_two_pairs_by_hand() -> None:
    """Pairs with S = 1 of n = 1 and S = 1 of n = 3: the score is 1/2, the residuals 1/2 and -1/2."""
    weight, n = (np.array(values, dtype=float).reshape(2, 1, 1, 1) for values in ([1, 1], [1, 3]))
    table = Sums.of(weight, n, np.zeros_like(n), weight).finish()
    assert table.score.item() == 0.5
    assert table.se.item() == pytest.approx(0.5**0.5 / 4)
    assert (table.n.item(), table.pairs.item()) == (4, 2)
