"""One input's attention, kept whole: what the queries and keys say is what the weights are."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from attnscan.inputs.tokens import DELIMITERS
from attnscan.results.attention import Attention
from attnscan.results.grid import Head


def test_products_of_neurons_add_up_to_the_weights(attention: Attention) -> None:
    logits = np.stack([attention.products(Head(1, 8), query).sum(-1) for query in range(len(attention.tokens))])
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert_allclose(weights, attention.weights[1, 8], atol=1e-6)


def test_special_tokens_and_sentences(attention: Attention) -> None:
    special = [sentence == -1 for sentence in attention.sentence]
    assert special == [token in DELIMITERS for token in attention.tokens]
    assert attention.visible.all() and attention.grid.shape == (6, 12)


def test_a_mean_of_heads_is_a_mean(attention: Attention) -> None:
    heads = [Head(0, 2), Head(1, 8), Head(5, 3)]
    expected = (attention.weights[0, 2] + attention.weights[1, 8] + attention.weights[5, 3]) / 3
    assert_allclose(attention.mean_weights(heads), expected, atol=1e-7)


def test_it_survives_a_file_but_for_its_neurons(attention: Attention) -> None:
    again = Attention.of(attention.saved(), attention.sentence)
    assert (again.weights == attention.weights).all() and again.tokens == attention.tokens
    assert again.query is None and again.key is None and again.scaling == ()
