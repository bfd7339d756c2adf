"""A row with too little on words is left out of every number and view, by one bound."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attnscan
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.signature import AttentionView
from attnscan.views.page.arrays import _numbers_of

TOKENS = ["[CLS]", "the", "cat", "sat", "on", "the", "mat", "[SEP]"]
WORDS = slice(1, 7)
ROW = 3  # the token whose row is nearly all on [CLS]
Weights = NDArray[np.float32]


def weights_with(on_words: float) -> Weights:
    """Two heads' random weights, with so much of one row on words, all of it on the next word."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(len(TOKENS)), (1, 2, len(TOKENS))).astype(np.float32)
    weights[..., ROW, :] = 0
    weights[..., ROW, 0] = 1 - on_words
    weights[..., ROW, ROW + 1] = on_words
    return weights


def scored(weights: Weights) -> Any:
    saved = {"attention": weights, "tokens": TOKENS}
    return attnscan.classify(weights=saved, related=False)


@pytest.mark.parametrize(("on_words", "rows"), [(MIN_ON_WORDS / 4, 5), (MIN_ON_WORDS * 4, 6)])
def test_bound_is_the_same_in_every_view(on_words: float, rows: int) -> None:
    weights = weights_with(on_words)
    result = scored(weights)
    every_word = result.scores.place_of("bag-of-words")
    assert result.table.n[0, :, every_word].tolist() == [rows, rows]
    counted = [row for row in range(1, 7) if row != ROW or rows == 6]
    among_words = weights[0][:, counted, WORDS].astype(float)
    among_words /= among_words.sum(-1, keepdims=True)
    itself = [among_words[:, place, row - 1] for place, row in enumerate(counted)]
    profile = result.profile
    share = profile.share[0, :, profile.classes.index("itself")]
    np.testing.assert_allclose(share, np.mean(itself, 0), rtol=1e-5)
    shown = result.attention.without_special_tokens.weights[0, :, ROW]
    np.testing.assert_allclose(shown.sum(-1), float(rows == 6), atol=1e-5)
    page = _numbers_of(result.attention, 0, AttentionView())[:, ROW - 1]
    np.testing.assert_allclose(page.sum(-1), float(rows == 6), atol=1e-5)
