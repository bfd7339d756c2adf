"""The scores after a change, and their errors: over pairs, and of one pair over the draws of the change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnscan.results.terms import Scored
from attnscan.scoring.sums import PAIR_SUMS, RatioSums, ScoreSums
from attnscan.studies.causes import CauseSums

N = np.array([3.0, 5.0, 2.0])
PLAIN = np.array([2.4, 3.5, 1.9])
DRAWS = np.array([[0.3, 1.0, 0.2], [0.5, 0.4, 0.4], [0.1, 0.7, 0.9], [0.7, 0.5, 0.1]])


class _Scored:
    """What a scorer says that has seen one head and one pattern on some pairs. Shape: `weight` is [pair]."""

    def __init__(self, weight: np.ndarray[Any, Any], pairs: slice) -> None:
        n, weight = N[pairs], weight[pairs]
        values = (weight, n, 0.1 * n, weight, 0 * n, 0.1 * n)
        of_pairs = {name: value[:, None, None, None] for name, value in zip(PAIR_SUMS, values, strict=True)}
        self._pairs = {f"{kind}.{name}": v for kind in ("every_key", "words_only") for name, v in of_pairs.items()}

    def pair_sums(self) -> dict[str, Any]:
        return self._pairs

    def sums(self) -> ScoreSums:
        return ScoreSums.of(self._pairs, (Scored("next-word"),), entropy=np.array([[2.0]]), words=4.0)


def _sums(pairs: slice, draws: np.ndarray[Any, Any] = DRAWS) -> CauseSums:
    drawn: Any = [_Scored(draw, pairs) for draw in draws]
    return CauseSums.of(_Scored(PLAIN, pairs).pair_sums(), drawn)


def test_draws_are_averaged_before_a_pair_is_counted() -> None:
    """Four draws of one pair are no four pairs."""
    scores, fall_se = _sums(slice(3)).finish()
    mean, table = DRAWS.mean(0), scores.every_key
    assert table.pairs.item() == 3 and table.n.item() == N.sum()
    assert_allclose(table.score.item(), mean.sum() / N.sum())
    assert_allclose(table.se.item(), RatioSums.of(mean, N).se)
    assert_allclose(fall_se.item(), RatioSums.of(PLAIN - mean, N).se)
    assert scores.entropy.item() == pytest.approx(0.5)
    of_draws_as_pairs = RatioSums.of(DRAWS.ravel(), np.tile(N, len(DRAWS))).se
    assert of_draws_as_pairs > 1.4 * table.se.item()  # what it had been, and was wrong


def test_the_error_of_one_pair_is_that_over_its_draws() -> None:
    scores, fall_se = _sums(slice(1)).finish()
    expected = (DRAWS[:, 0] / N[0]).std(ddof=1) / len(DRAWS) ** 0.5
    assert_allclose([scores.every_key.se.item(), fall_se.item()], expected)


def test_of_one_pair_and_one_draw_there_is_no_error() -> None:
    scores, fall_se = _sums(slice(1), DRAWS[:1]).finish()
    assert np.isnan([scores.every_key.se.item(), fall_se.item()]).all()
    assert scores.every_key.score.item() == pytest.approx(0.1)


def test_batches_add_to_what_they_are_together() -> None:
    (whole, fall_se), (added, added_fall_se) = _sums(slice(3)).finish(), (_sums(slice(1)) + _sums(slice(1, 3))).finish()
    for name in ("score", "se", "n", "pairs"):
        assert_allclose(getattr(added.every_key, name), getattr(whole.every_key, name))
    assert_allclose(added_fall_se, fall_se)
