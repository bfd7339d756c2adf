"""Scoring against plain loops, and what must not change a score: padding, the inputs beside it, the
size of blocks.
"""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.handwritten_inputs import attend, input_of, random_weights
from support.hypothesis_draws import draws
from support.reference_scores import Written, check_head

from attnscan.errors import CaptureError
from attnscan.inputs.batch import collate
from attnscan.inputs.sentence import Unit
from attnscan.results.scores import Scores
from attnscan.scoring.labels import scores_of
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.patterns import PATTERNS, Pattern
from attnscan.scoring.units import Targets

LAYERS = 2
HEADS = 3
WORDS = ["a", "A", "the", "cat", "##s", ".", ",", "ran", "Ġcat"]


@st.composite
def written_inputs(draw: st.DrawFn) -> str:
    """One or two sentences of a small vocabulary, so that words repeat."""
    sentences = draw(
        st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=2)
    )
    written = ["[CLS]"]
    for sentence in sentences:
        written += [*sentence, "[SEP]"]
    return " ".join(written)


def _weights(text: str, seed: int, *, causal: bool = False) -> torch.Tensor:
    """Random attention, one head's parked wholly on the first token.

    Shape: [layer, head, query, key].
    """
    weights = random_weights(LAYERS, HEADS, len(text.split()), seed, causal=causal)
    weights[0, 0] = torch.eye(weights.shape[-1])[0]
    return weights


def _scored(
    texts: list[str],
    weights: list[torch.Tensor],
    *,
    unit: Unit = "token",
    by_query: bool = False,
    **attention: Any,
) -> PatternScorer:
    """A scorer that has seen the attention of one batch."""
    batch = collate([input_of(text, unit) for text in texts])
    scorer = PatternScorer(Targets(batch, PATTERNS, by_query=by_query))
    attend(scorer, weights, **attention)
    return scorer


def _scores(scorer: PatternScorer) -> Scores:
    return scores_of(scorer.sums(), [pattern.scored for pattern in PATTERNS])


@settings(deadline=None, max_examples=draws(60))
@given(st.lists(written_inputs(), min_size=1, max_size=4), st.booleans())
@example(
    texts=["[CLS] The cat , the s Ġcat [SEP] ▁cat ##s , a [SEP]", "[CLS] [SEP] [SEP]"], causal=False
)
def test_scores_equal_the_plain_loops(texts: list[str], causal: bool) -> None:
    """In a causal model too, whose targets, eligible queries and even spreads are those that can be
    seen.

    Next words stop at the sentence; case is folded and marks of tokenizers are taken off;
    punctuation is identical to nothing, nor is a piece to the word that it looks like.
    """
    weights = [_weights(text, seed, causal=causal) for seed, text in enumerate(texts)]
    visible = [np.tri(len(text.split()), dtype=bool) for text in texts] if causal else None
    scores = _scores(_scored(texts, weights, causal=causal))
    inputs = [_written(text) for text in texts]
    for head in scores.grid:
        weights_of_head = [matrix[head.place].double().numpy() for matrix in weights]
        check_head(scores, head, inputs, weights_of_head, visible=visible)


def _written(text: str) -> Written:
    """An input as the loops read it, without the marks of tokenizers."""
    tokens = [token.lstrip("Ġ▁") for token in text.split()]
    return Written(tokens, input_of(text).sentence)


def test_without_what_the_model_tells_predictive_has_no_score() -> None:
    text = "[CLS] a cat [SEP]"
    scores = _scores(_scored([text], [_weights(text, 0)]))
    predictive = scores.patterns.index("predictive")
    assert np.isnan(scores.every_key.score[..., predictive]).all()
    assert not scores.every_key.n[..., predictive].any()


@settings(deadline=None, max_examples=draws(30))
@given(st.lists(written_inputs(), min_size=1, max_size=3), st.booleans(), st.integers(0, 2**16))
def test_chance_of_what_is_carried_is_that_of_even_attention(
    texts: list[str], causal: bool, seed: int
) -> None:
    """Heads that attend evenly have the score of chance, each by the lengths of its own values."""
    widths = [len(text.split()) for text in texts]
    rng = np.random.default_rng(seed)
    lengths = [
        torch.tensor(rng.gamma(1, 1, (LAYERS, HEADS, width)) + 0.01, dtype=torch.float32)
        for width in widths
    ]
    even = [
        torch.ones(LAYERS, HEADS, width, width).tril(diagonal=0 if causal else width)
        for width in widths
    ]
    carried = [matrix * norms[:, :, None] for matrix, norms in zip(even, lengths, strict=True)]
    weights = [matrix / matrix.sum(-1, keepdim=True) for matrix in carried]
    scores = _scores(_scored(texts, weights, causal=causal, norms=lengths))
    for table in (scores.every_key, scores.words_only):
        assert_allclose(table.score, table.chance, atol=1e-5)
    first = {"causal": causal, "norms": lengths[:1]}
    alone = _scored(texts[:1], weights[:1], **first).sums()
    by_query = _scored(texts[:1], weights[:1], by_query=True, **first).sums()
    assert_allclose(by_query["words_only.chance"], alone["words_only.chance"], atol=1e-5)


@settings(deadline=None, max_examples=draws(40))
@given(st.lists(written_inputs(), min_size=2, max_size=5))
def test_padding_and_the_inputs_beside_it_change_no_inputs_sums(texts: list[str]) -> None:
    weights = [_weights(text, seed) for seed, text in enumerate(texts)]
    together = _scored(texts, weights).sums()
    for number, (text, matrix) in enumerate(zip(texts, weights, strict=True)):
        for name, values in _scored([text], [matrix]).sums().items():
            assert_allclose(together[name][number], values[0], atol=1e-5, rtol=1e-5, err_msg=name)


@settings(deadline=None, max_examples=draws(30))
@given(written_inputs(), st.booleans())
def test_queries_and_blocks_of_any_size_add_up_to_their_input(text: str, causal: bool) -> None:
    weights = [_weights(text, 3, causal=causal)]
    whole = _scored([text], weights, causal=causal)
    scorer = _scored([text], weights, causal=causal, by_query=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnscan.scoring.units.CELLS", 3 * 7)  # about three queries at a time
        parts = [
            _scored([text], weights, heads_at_once=2, causal=causal, by_query=by_query)
            for by_query in (False, True)
        ]
        for name, values in whole.sums().items():
            for other in (scorer, *parts):
                assert_allclose(other.sums()[name], values, atol=1e-6, err_msg=name)
            words = scorer.word_sums().get(name, values).sum(0)
            assert_allclose(words, values[0], atol=1e-6, err_msg=name)


def test_pieces_of_a_word_are_summed_to_and_averaged_from() -> None:
    rows = [
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [0.0, 0.1, 0.3, 0.5, 0.1],
        [0, 0.6, 0.1, 0.1, 0.2],
        [0, 0.2, 0.3, 0.3, 0.2],
    ]
    weights = torch.tensor([*rows, rows[0]])[None, None]
    table = _scores(_scored(["[CLS] big straw ##berries [SEP]"], [weights], unit="word")).every_key
    assert table.score[0, 0, 0] == pytest.approx(0.3 + 0.5)  # big -> straw and ##berries
    assert table.score[0, 0, 1] == pytest.approx((0.6 + 0.2) / 2)  # straw and ##berries -> big
    assert table.chance[0, 0, 0] == pytest.approx(2 / 5)  # two of five tokens


@pytest.mark.parametrize(
    ("resting", "n", "score"), [("straw ##berries", 1, 0.7), ("straw", 2, (0.6 / 2 + 0.7) / 2)]
)
def test_a_word_counts_if_one_of_its_pieces_carries_something(
    resting: str, n: int, score: float
) -> None:
    text = "[CLS] big straw ##berries cat [SEP]"
    weights = torch.full((6, 6), 1 / 6)
    weights[2] = weights[3] = torch.tensor([0, 0.6, 0.1, 0.1, 0, 0.2])
    weights[4] = torch.tensor([0, 0.1, 0.3, 0.4, 0, 0.2])
    weights[[token in resting.split() for token in text.split()]] = 0
    scorer = _scored([text], [weights[None, None]], unit="word", norms=[torch.ones(1, 1, 6)])
    table = _scores(scorer).every_key
    assert table.n[0, 0, 1] == n and table.score[0, 0, 1] == pytest.approx(score)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_a_pattern_alone_scores_as_beside_the_others(pattern: Pattern) -> None:
    text = "[CLS] the cat sat [SEP] a cat [SEP]"
    weights = _weights(text, 0)
    batch = collate([input_of(text, "token")])
    scorer = PatternScorer(Targets(batch, [pattern]))
    attend(scorer, [weights])
    alone = scores_of(scorer.sums(), [pattern.scored]).every_key.score[..., 0]
    beside = _scores(_scored([text], [weights])).every_key.score[..., PATTERNS.index(pattern)]
    assert_allclose(alone, beside, atol=1e-9)


def test_an_error_names_the_layer_whose_attention_is_not_finite() -> None:
    text = "[CLS] a cat [SEP]"
    weights = _weights(text, 0)
    weights[1, 2, 1] = torch.nan
    with pytest.raises(CaptureError, match="not finite from layer 1 on"):
        _scored([text], [weights]).sums()
