"""Shares of classes from sums of pairs, against a plain formula."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_results import SIGNATURE

from attnscan.results.heads import Profile
from attnscan.results.scores import CLASSES, COLUMNS, SPECIAL_CLASSES, WORD_CLASSES, Scores
from attnscan.results.terms import Grid, Reading, Scored
from attnscan.scoring.blocks import KINDS
from attnscan.scoring.labels import class_shares, scores_of

OUT = Reading("weight", "out")
GRID = 2, 3
SCORED = Scored("next-word"), Scored("identical", of_others=True), Scored("mine")


def _units(count: int) -> dict[str, np.ndarray]:
    """Random sums of pairs. Shape: [pair, layer, head, column] each."""
    rng = np.random.default_rng(count)
    words = rng.integers(6, 20, (count, 1, 1, 1)).astype(float)
    on, special = (rng.uniform(0, 0.1, (count, *GRID, columns)) * words for columns in (COLUMNS, 3))
    even, even_special = (np.full((count, *GRID, columns), 0.05) * words for columns in (COLUMNS, 3))
    return {
        "on": on,
        "even": even,
        "words": words,
        "special": special,
        "even_special": even_special,
        "all_words": words + 1,
    }


def _scores(count: int) -> Scores:
    shape = (count, *GRID, len(SCORED))
    sums = {f"{kind}.{name}": np.ones(shape) for kind in KINDS for name in ("n", "whole", "pairs")}
    sums |= {f"{kind}.{name}": np.full(shape, 0.5) for kind in KINDS for name in ("weight", "chance", "itself")}
    sums |= {name: np.ones((count, *GRID, 1)) for name in ("entropy", "rows")}
    return scores_of(sums, SCORED)


def _shares(count: int, *, of_pairs: bool = True) -> Profile:
    return Profile(*class_shares(_units(count), _scores(count), OUT, of_pairs=of_pairs), Grid(GRID), SIGNATURE)


def test_a_share_is_a_ratio_of_sums_and_its_error_is_clustered_by_pair() -> None:
    units, found = _units(30), _shares(30)
    assert found.classes == (*WORD_CLASSES, "mine", *SPECIAL_CLASSES)
    for place, name in enumerate(found.classes):
        if name == "mine":
            continue
        if name in SPECIAL_CLASSES:
            sums, even, words = units["special"], units["even_special"], units["all_words"]
            column = SPECIAL_CLASSES.index(name)
        else:
            sums, even, words, column = units["on"], units["even"], units["words"], CLASSES.index(name)
        for layer, head in np.ndindex(GRID):
            own, n = sums[:, layer, head, column], words[:, 0, 0, 0]
            share = own.sum() / n.sum()
            error = np.sqrt(30 / 29 * sum((s - share * k) ** 2 for s, k in zip(own, n, strict=True))) / n.sum()
            assert_allclose(found.share[layer, head, place], share)
            assert_allclose(found.se[layer, head, place], error)
            assert_allclose(found.chance[layer, head, place], even[:, 0, 0, column].sum() / n.sum())


def test_a_pattern_of_ones_own_has_its_score() -> None:
    assert (_shares(4).share[..., len(WORD_CLASSES)] == 0.5).all()


@pytest.mark.parametrize(("count", "of_pairs"), [(1, True), (12, False)], ids=["one pair", "words of one input"])
def test_without_several_pairs_there_is_no_error(count: int, of_pairs: bool) -> None:
    found = _shares(count, of_pairs=of_pairs)
    assert np.isnan(found.se[..., : len(WORD_CLASSES)]).all() and np.isfinite(found.share).all()
