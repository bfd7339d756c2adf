"""Scoring against plain loops, and what must not change a score: padding, order, batches, shards, blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
import reference
import torch
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference import Written
from written import input_of

from attnscan.errors import CaptureError
from attnscan.inputs.batch import collate
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.model.tap import AttentionBlock
from attnscan.results.scores import Scores
from attnscan.results.terms import Grid
from attnscan.scoring.blocks import Blocks, PairSums
from attnscan.scoring.labels import scores_of
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.units import Targets

LAYERS, HEADS = 2, 3
NUMBERS = ("score", "chance", "se", "n", "pairs", "itself")
WORDS = ["a", "A", "the", "cat", "##s", ".", ",", "ran", "Ġcat"]


@st.composite
def written_inputs(draw: st.DrawFn) -> str:
    """One or two sentences of a small vocabulary, so that words repeat."""
    sentences = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=2))
    return " ".join(["[CLS]", *(word for sentence in sentences for word in [*sentence, "[SEP]"])])


def _weights(text: str, seed: int) -> torch.Tensor:
    """Random attention, some of it parked wholly on the first token. Shape: [layer, head, query, key]."""
    length = len(text.split())
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (LAYERS, HEADS, length, length))
    logits[0, 0, :, 0] += 100
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return torch.tensor(weights / weights.sum(-1, keepdims=True), dtype=torch.float32)


def _causal(weights: torch.Tensor) -> torch.Tensor:
    """The same for a model whose queries see no later key."""
    seen = weights.tril() + torch.eye(weights.shape[-1]) * 1e-9
    return seen / seen.sum(-1, keepdim=True)


def _score(
    texts: list[str], weights: list[torch.Tensor], heads_at_once: int = HEADS, *, causal: bool = False
) -> Blocks:
    """Score inputs as one batch, weights padded with zeros."""
    keys = [Pair(text).key for text in texts]
    return Blocks.of(keys, _scorer(texts, weights, heads_at_once, causal=causal).sums())


def _finished(sums: PairSums) -> Scores:
    return scores_of(sums, [pattern.scored for pattern in PATTERNS])


def _scorer(
    texts: list[str],
    weights: list[torch.Tensor],
    heads_at_once: int = HEADS,
    *,
    causal: bool = False,
    by_query: bool = False,
    norms: list[torch.Tensor] | None = None,
) -> Scorer:
    inputs: list[EncodedInput] = [input_of(text) for text in texts]
    batch = collate(inputs)
    scorer = Scorer(Targets(batch, PATTERNS, by_query=by_query))
    width = batch.word.shape[1]
    padded = torch.zeros(len(texts), LAYERS, HEADS, width, width)
    visible = torch.zeros(len(texts), width, width, dtype=torch.bool)
    for row, (matrix, mask) in enumerate(zip(weights, visible, strict=True)):
        length = matrix.shape[-1]
        padded[row, :, :, :length, :length] = matrix
        mask[: length if causal else width, :length] = torch.ones(length, length).tril().bool() if causal else True
    lengths = torch.zeros(len(texts), LAYERS, HEADS, width)
    for row, of_input in enumerate(norms or []):
        lengths[row, :, :, : of_input.shape[-1]] = of_input
    for layer in range(LAYERS):
        for first in range(0, HEADS, heads_at_once):
            heads = slice(first, min(first + heads_at_once, HEADS))
            given = (padded[:, layer, heads], visible, None, None, None, None)
            block = AttentionBlock(Grid((LAYERS, HEADS)), layer, slice(0, len(texts)), heads, *given)
            scorer(replace(block, value_norms=None if norms is None else lengths[:, layer, heads]))
    return scorer


def _equal(one: Blocks, other: Blocks, tolerance: float) -> None:
    for name, values in one.sums.items():
        assert_allclose(values, other.sums[name], atol=tolerance, rtol=tolerance, err_msg=name)


@settings(deadline=None, max_examples=draws(60))
@given(st.lists(written_inputs(), min_size=1, max_size=4), st.booleans())
def test_scores_equal_the_plain_loops(texts: list[str], causal: bool) -> None:
    """In a causal model too, whose targets, eligible queries and even spreads are those that can be seen."""
    weights = [_weights(text, seed) for seed, text in enumerate(texts)]
    weights = [_causal(each) for each in weights] if causal else weights
    visible = [np.tri(len(text.split()), dtype=bool) for text in texts] if causal else None
    scores = _finished(_scorer(texts, weights, causal=causal).sums())
    inputs = [Written([t.lstrip("Ġ") for t in text.split()], input_of(text).sentence) for text in texts]
    for layer in range(LAYERS):
        for head in range(HEADS):
            matrices = [matrix[layer, head].double().numpy() for matrix in weights]
            assert scores.entropy[layer, head] == pytest.approx(reference.entropy(inputs, matrices), abs=1e-5)
            for table, words_only in ((scores.every_key, False), (scores.words_only, True)):
                expected = reference.scores(inputs, matrices, words_only=words_only, visible=visible)
                for p, pattern in enumerate(scores.patterns):
                    numbers = NUMBERS if pattern == "identical" else NUMBERS[:-1]
                    found = [getattr(table, name)[layer, head, p] for name in numbers]
                    wanted = expected.get(pattern, (np.nan, np.nan, np.nan, 0, 0))[: len(numbers)]
                    assert_allclose(found, wanted, atol=1e-5, rtol=0, err_msg=f"{pattern} {words_only}")
                part = (layer, head, scores.patterns.index("cross-sentence"))
                of_pairs = reference.of_pairs(inputs, matrices, words_only=words_only, visible=visible)
                assert_allclose(table.share[part], of_pairs["cross-sentence"].share, atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=draws(30))
@given(st.lists(written_inputs(), min_size=1, max_size=3), st.booleans(), st.integers(0, 2**16))
def test_chance_of_what_is_carried_is_what_even_attention_would_carry(
    texts: list[str], causal: bool, seed: int
) -> None:
    """Heads that attend evenly have the score of chance, each by the lengths of its own values."""
    widths, rng = [len(text.split()) for text in texts], np.random.default_rng(seed)
    lengths = [torch.tensor(rng.gamma(1, 1, (LAYERS, HEADS, width)) + 0.01, dtype=torch.float32) for width in widths]
    even = [torch.ones(LAYERS, HEADS, width, width).tril(diagonal=0 if causal else width) for width in widths]
    carried = [matrix * norms[:, :, None] for matrix, norms in zip(even, lengths, strict=True)]
    weights = [matrix / matrix.sum(-1, keepdim=True) for matrix in carried]
    scores = _finished(_scorer(texts, weights, causal=causal, norms=lengths).sums())
    for table in (scores.every_key, scores.words_only):
        assert_allclose(table.score, table.chance, atol=1e-5)
    by_word = _finished(_scorer(texts[:1], weights[:1], causal=causal, norms=lengths[:1], by_query=True).sums())
    alone = _finished(_scorer(texts[:1], weights[:1], causal=causal, norms=lengths[:1]).sums())
    assert_allclose(by_word.words_only.chance, alone.words_only.chance, atol=1e-6)


@settings(deadline=None, max_examples=draws(40))
@given(st.lists(written_inputs(), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_padding_order_and_sharding_change_nothing(texts: list[str], random: object) -> None:
    weights = [_weights(text, seed) for seed, text in enumerate(texts)]
    together = _score(texts, weights)
    order = list(range(len(texts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = _score([texts[i] for i in order], [weights[i] for i in order])
    alone = reduce(add, [_score([text], [matrix]) for text, matrix in zip(texts, weights, strict=True)])
    _equal(together, shuffled, 1e-5)
    _equal(together, alone, 1e-5)


@pytest.mark.parametrize("by_query", [False, True])
def test_blocks_of_heads_and_of_queries_may_have_any_size(monkeypatch: pytest.MonkeyPatch, by_query: bool) -> None:
    text = "[CLS] a cat [SEP] a cat [SEP]"
    weights = [_causal(_weights(text, 0))]
    whole = _scorer([text], weights, causal=True, by_query=by_query).sums()
    monkeypatch.setattr("attnscan.scoring.units.CELLS", 3 * 7)  # three queries at a time
    parts = _scorer([text], weights, 2, causal=True, by_query=by_query).sums()
    for name, values in whole.items():
        assert_allclose(parts[name], values, atol=1e-6, err_msg=name)


@settings(deadline=None, max_examples=draws(30))
@given(written_inputs(), st.booleans())
def test_queries_by_themselves_add_up_to_their_input(text: str, causal: bool) -> None:
    weights = [_causal(_weights(text, 3)) if causal else _weights(text, 3)]
    whole = _scorer([text], weights, causal=causal).sums()
    scorer = _scorer([text], weights, causal=causal, by_query=True)
    for name, values in whole.items():
        assert_allclose(scorer.sums()[name], values, atol=1e-6, err_msg=name)
        words = scorer.word_sums().get(name, values).sum(0)
        assert_allclose(words, values[0], atol=1e-6, err_msg=name)


def test_words_of_several_pieces_sum_to_them_and_average_from_them() -> None:
    text = "[CLS] big straw ##berries [SEP]"
    encoded = input_of(text, "word")
    batch = collate([encoded])
    assert encoded.units == ("[CLS]", "big", "strawberries", "[SEP]")
    rows = torch.tensor([[0.2, 0.2, 0.2, 0.2, 0.2], [0.0, 0.1, 0.3, 0.5, 0.1], [0, 0.6, 0.1, 0.1, 0.2]])
    weights = torch.cat([rows, torch.tensor([[0, 0.2, 0.3, 0.3, 0.2], [0.2, 0.2, 0.2, 0.2, 0.2]])])[None, None]
    scorer, every, sees = Scorer(Targets(batch, PATTERNS)), slice(None), torch.ones(1, 5, 5, dtype=torch.bool)
    scorer(AttentionBlock(Grid((1, 1)), 0, every, every, weights, sees, None, None, None, None))
    table = _finished(scorer.sums()).every_key
    assert table.score[0, 0, 0] == pytest.approx(0.3 + 0.5)  # big -> straw and ##berries
    assert table.score[0, 0, 1] == pytest.approx((0.6 + 0.2) / 2)  # straw and ##berries -> big
    assert table.chance[0, 0, 0] == pytest.approx(2 / 5)  # two of five tokens


@pytest.mark.parametrize(("resting", "n", "score"), [("straw ##berries", 1, 0.7), ("straw", 2, (0.6 / 2 + 0.7) / 2)])
def test_a_word_counts_if_one_of_its_pieces_carries_something(resting: str, n: int, score: float) -> None:
    text = "[CLS] big straw ##berries cat [SEP]"
    batch = collate([input_of(text, "word")])
    weights = torch.full((6, 6), 1 / 6)
    weights[2] = weights[3] = torch.tensor([0, 0.6, 0.1, 0.1, 0, 0.2])
    weights[4] = torch.tensor([0, 0.1, 0.3, 0.4, 0, 0.2])
    idle = torch.tensor([token in resting.split() for token in text.split()])
    scorer, every, sees = Scorer(Targets(batch, PATTERNS)), slice(None), torch.ones(1, 6, 6, dtype=torch.bool)
    given = (weights.masked_fill(idle[:, None], 0)[None, None], sees, None, None, None, None, None)
    scorer(AttentionBlock(Grid((1, 1)), 0, every, every, *given, value_norms=torch.ones(1, 1, 6)))
    table = _finished(scorer.sums()).every_key
    assert table.n[0, 0, 1] == n and table.score[0, 0, 1] == pytest.approx(score)


def test_attention_that_is_not_finite_is_an_error_that_names_the_layer() -> None:
    text = "[CLS] a cat [SEP]"
    weights = _weights(text, 0)
    weights[1, 2, 1] = torch.nan
    with pytest.raises(CaptureError, match="not finite from layer 1 on"):
        _score([text], [weights])
