"""Batches by their words: the weights of merged tokens, targets under masks, blocks of words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from by_loops import merged
from numpy.testing import assert_allclose, assert_array_equal
from support.handwritten_inputs import attend, batch_of, input_of, random_weights
from torch import Tensor

from attnscan.errors import OptionError
from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.results.predictions import WordDependencies
from attnscan.scoring import units
from attnscan.scoring.blocks import SumsByName
from attnscan.scoring.class_scorer import ClassScorer
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.patterns import PATTERNS, Pattern
from attnscan.scoring.units import Targets, Units, accumulation_dtype

LAYERS = 2
HEADS = 3
PIECES = [
    "[CLS] big straw ##berries , red straw ##berries [SEP] a ##b ##c big [SEP]",
    "[CLS] straw ##s [SEP]",
    "[CLS] a cat [SEP]",
]
MERGED = [
    "[CLS] big strawberries , red strawberries [SEP] abc big [SEP]",
    "[CLS] straws [SEP]",
    "[CLS] a cat [SEP]",
]


def weights_of(text: str, *, even: bool = False) -> Tensor:
    """Random or even attention between tokens. Shape: [layer, head, query, key]."""
    tokens = len(text.split())
    if even:
        return torch.full((LAYERS, HEADS, tokens, tokens), 1 / tokens)
    return random_weights(LAYERS, HEADS, tokens, seed=tokens)


def merged_weights(text: str, weights: Tensor) -> Tensor:
    """The same between words, by a plain loop."""
    pieces: list[list[int]] = []
    for place, token in enumerate(text.split()):
        if token.startswith("##"):
            pieces[-1].append(place)
        else:
            pieces.append([place])
    words = np.zeros((LAYERS, HEADS, len(pieces), len(pieces)), np.float32)
    for layer, head in np.ndindex(LAYERS, HEADS):
        words[layer, head] = merged(weights[layer, head].tolist(), pieces)
    return torch.from_numpy(words)


def by_pattern(
    batch: EncodedBatch,
    weights: list[Tensor],
    *,
    by_query: bool = False,
    norms: list[Tensor] | None = None,
) -> SumsByName:
    scorer = PatternScorer(Targets(batch, PATTERNS, by_query=by_query))
    attend(scorer, weights, heads_at_once=2, norms=norms)
    return scorer.sums()


def by_class(
    batch: EncodedBatch,
    weights: list[Tensor],
    *,
    by_query: bool = False,
    norms: list[Tensor] | None = None,
) -> SumsByName:
    scorer = ClassScorer(Units(batch, by_query=by_query), special=False)
    attend(scorer, weights, heads_at_once=2, norms=norms)
    return scorer.sums()


@pytest.mark.parametrize("cells", [1 << 20, 30])
def test_scores_of_words_are_those_of_their_merged_weights(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance aside, which is of even attention between tokens.

    Of few cells, inputs are measured in ranges of two tokens: one word is longer than that, and of
    short inputs most ranges would be padding.
    """
    monkeypatch.setattr(units, "CELLS", cells)
    weights = [weights_of(text) for text in PIECES]
    ours = by_pattern(batch_of(*PIECES, unit="word"), weights)
    words = [merged_weights(*pair) for pair in zip(PIECES, weights, strict=True)]
    expected = by_pattern(batch_of(*MERGED), words)
    for name, values in expected.items():
        if not name.endswith(".chance"):
            assert_allclose(ours[name], values, atol=1e-5, err_msg=name)


def test_words_of_long_inputs_are_summed_as_those_of_short_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of short ones by products, and of long ones token by token."""
    weights = [weights_of(text) for text in PIECES]
    expected = by_pattern(batch_of(*PIECES, unit="word"), weights)
    monkeypatch.setattr(units, "_most_tokens_multiplied", lambda _: 0)
    found = by_pattern(batch_of(*PIECES, unit="word"), weights)
    for name, values in expected.items():
        assert_allclose(found[name], values, atol=1e-5, err_msg=name)


def test_chance_of_words_is_the_score_of_even_attention_between_tokens() -> None:
    batch = batch_of(*PIECES, unit="word")
    sums = by_pattern(batch, [weights_of(text, even=True) for text in PIECES])
    for key_set in ("every_key", "words_only"):
        assert_allclose(sums[f"{key_set}.chance"], sums[f"{key_set}.weight"], atol=1e-5)


@pytest.mark.parametrize("cells", [1 << 20, 30])
def test_classes_of_words_are_those_of_their_merged_weights(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What rows have in common with even attention between tokens aside."""
    monkeypatch.setattr(units, "CELLS", cells)
    weights = [weights_of(text) for text in PIECES]
    ours = by_class(batch_of(*PIECES, unit="word"), weights)
    words = [merged_weights(*pair) for pair in zip(PIECES, weights, strict=True)]
    expected = by_class(batch_of(*MERGED), words)
    linear = list(range(expected["on"].shape[-1]))
    del linear[-2]
    assert_allclose(ours["on"][..., linear], expected["on"][..., linear], atol=1e-5)
    assert_allclose(ours["special"], expected["special"], atol=1e-5)
    assert_allclose(ours["n"], expected["n"])
    assert_allclose(ours["all_words"], expected["all_words"])


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("scored", [by_pattern, by_class])
def test_values_of_one_length_carry_what_weights_say(scored: Any, unit: Any) -> None:
    batch = batch_of(*PIECES, unit=unit)
    weights = [weights_of(text) for text in PIECES]
    ones = [torch.ones(LAYERS, HEADS, len(text.split())) for text in PIECES]
    expected = scored(batch, weights)
    for name, values in scored(batch, weights, norms=ones).items():
        assert_allclose(values, expected[name], atol=1e-5, err_msg=name)


def test_rows_that_carry_nothing_are_in_no_sum() -> None:
    """The second word of three carries nothing: its row is zero."""
    text = "[CLS] a b c [SEP]"
    weights = weights_of(text)
    weights[:, :, 2] = 0
    ones = [torch.ones(LAYERS, HEADS, 5)]
    words = by_class(batch_of(text), [weights], norms=ones, by_query=True)
    assert words["n"][:, 0, 0, 0].tolist() == [1, 0, 1]
    assert words["all_words"][:, 0, 0, 0].tolist() == [1, 0, 1]
    assert not words["on"][1, :, :, :-1].any()
    assert by_class(batch_of(text), [weights], norms=ones)["n"].max() == 2
    assert by_pattern(batch_of(text), [weights], norms=ones)["rows"].max() == 2


@pytest.mark.parametrize("unit", ["token", "word"])
def test_words_of_an_input_add_up_to_it(unit: Any) -> None:
    weights = [weights_of(PIECES[0])]
    batch = batch_of(PIECES[0], unit=unit)
    whole = by_pattern(batch, weights)
    for name, values in by_pattern(batch, weights, by_query=True).items():
        assert_allclose(values, whole[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("blocks", "sizes"), [(99, [1] * 7), (7, [1] * 7), (3, [3, 2, 2]), (2, [4, 3]), (1, [7])]
)
def test_neighbouring_words_share_a_block_where_there_are_too_many(
    blocks: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MAX_WORD_BLOCKS", blocks)
    text = "[CLS] a b c [SEP] d e f g [SEP]"
    sums = by_class(batch_of(text), [weights_of(text)], by_query=True)
    assert sums["n"][:, 0, 0, 0].tolist() == sizes


def test_sums_are_of_64_bits_where_a_device_has_them() -> None:
    assert accumulation_dtype(torch.device("cpu")) == torch.float64
    assert accumulation_dtype(torch.device("mps")) == torch.float32


TEXT = "[CLS] the cat sat the cat [SEP]"
SIZE = len(TEXT.split())


def test_layers_have_the_targets_of_their_masks() -> None:
    full = np.ones((SIZE, SIZE), dtype=bool)
    causal = np.tri(SIZE, dtype=bool)
    targets = Targets(batch_of(TEXT), PATTERNS)
    layers = targets.by_layer(np.stack([full, causal, full]))
    for layer, mask in zip(layers, (full, causal, full), strict=True):
        under_mask = targets.batch.with_mask(torch.from_numpy(mask)[None])
        expected = torch.cat([matrix.float() for matrix in targets.of(under_mask)])
        assert_array_equal(layer, expected.numpy())
    assert not np.array_equal(layers[0], layers[1])


def test_some_rows_have_the_targets_that_they_have_in_whole() -> None:
    mask = np.tri(SIZE, dtype=bool)[None]
    targets = Targets(batch_of(TEXT), PATTERNS)
    (whole,) = targets.by_layer(mask)
    (part,) = targets.by_layer(mask[:, 2:5], rows=(2, 3, 4))
    assert_array_equal(part, whole[:, 2:5])


def test_what_a_query_cannot_see_is_no_target() -> None:
    mask = torch.tensor(np.tri(SIZE, dtype=bool))[None]
    for matrix in Targets(batch_of(TEXT), PATTERNS).of(batch_of(TEXT).with_mask(mask)):
        assert not matrix[~mask].any()


def test_even_targets_share_the_weight_among_the_keys_that_are_seen() -> None:
    """The second word of a causal model sees two of five."""
    place = [pattern.id for pattern in PATTERNS].index("bag-of-words")
    mask = torch.tensor(np.tri(SIZE, dtype=bool))[None]
    row = Targets(batch_of(TEXT), PATTERNS).of(batch_of(TEXT).with_mask(mask))[place][0, 2]
    assert row.tolist() == [0, 0.5, 0.5, 0, 0, 0, 0]


def test_patterns_that_do_not_count_have_no_target() -> None:
    targets = Targets(batch_of(TEXT), PATTERNS, only=["next-word"])
    has_target = [bool(matrix.any()) for matrix in targets.of(targets.batch)]
    assert has_target == [pattern.id == "next-word" for pattern in PATTERNS]


def helped(batch: EncodedBatch, dependencies: list[WordDependencies]) -> Tensor:
    place = [pattern.id for pattern in PATTERNS].index("predictive")
    return Targets(batch, PATTERNS, dependencies).of(batch)[place]


def dependencies_of(*places: int) -> WordDependencies:
    """Shares of words at some places, another one in each cell."""
    count = len(places)
    shares = (1 + np.arange(count * count).reshape(count, count)) / 10
    return WordDependencies(
        values=shares, shares=shares, places=places, measure="cpmi", description=""
    )


def test_targets_of_predictive_are_the_shares_of_each_input() -> None:
    batch = batch_of("[CLS] a b c [SEP]", "[CLS] a b [SEP]")
    target = helped(batch, [dependencies_of(1, 3), dependencies_of(2)])
    expected = torch.zeros(2, 5, 5)
    expected[0, 1, [1, 3]] = torch.tensor([0.1, 0.2])
    expected[0, 3, [1, 3]] = torch.tensor([0.3, 0.4])
    expected[1, 2, 2] = 0.1
    assert torch.equal(target, expected)


def test_targets_of_predictive_in_a_range_are_cut_out_of_the_whole() -> None:
    batch = batch_of("[CLS] a b c d [SEP]")
    dependencies = [dependencies_of(1, 2, 4)]
    whole = helped(batch, dependencies)
    for queries, keys in ((slice(2, 5), slice(0, 6)), (slice(1, 4), slice(2, 5))):
        part = helped(replace(batch, queries=queries, keys=keys), dependencies)
        assert torch.equal(part, whole[:, queries, keys])


def own(function: Any) -> Targets:
    """A batch with a pattern of one's own."""
    pattern = Pattern(id="mine", letter="M", target=function, counts="")
    return Targets(batch_of("[CLS] a b c [SEP]"), [pattern])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: 1 / 0, "the function of pattern 'mine' fails: ZeroDivisionError: division"),
        (lambda _: None, r"gives a NoneType, not one of shape \[1, 5, 5\]; return a tensor"),
        (lambda batch: batch.word, r"gives a target of shape \[1, 5\], not one of shape"),
        (lambda batch: batch.alike * 1.1, r"gives numbers outside \[0, 1\]"),
        (lambda batch: batch.alike * -0.1, r"gives numbers outside \[0, 1\]"),
        (lambda batch: batch.alike * float("nan"), r"gives numbers outside \[0, 1\]"),
    ],
)
def test_an_own_pattern_that_gives_no_target_is_refused(function: Any, message: str) -> None:
    targets = own(function)
    with pytest.raises(OptionError, match=message):
        targets.of(targets.batch)


def test_an_error_of_ours_in_an_own_pattern_stays_as_it_is() -> None:
    def refuse(_: EncodedBatch) -> Tensor:
        raise OptionError("not this one", "take another")

    targets = own(refuse)
    with pytest.raises(OptionError, match=r"^not this one; take another$"):
        targets.of(targets.batch)


@pytest.mark.parametrize("number", [0.0, 0.25, 1.0])
def test_an_own_pattern_may_give_any_number_from_0_to_1(number: float) -> None:
    targets = own(lambda batch: batch.same_sentence.double() * number)
    (matrix,) = targets.of(targets.batch)
    assert matrix.dtype == torch.float32
    assert_allclose(matrix, targets.batch.same_sentence * number)


def test_an_own_pattern_sees_whole_inputs_whatever_range_is_measured() -> None:
    """It is the distance from the end, which a range does not tell."""

    def last_word(batch: EncodedBatch) -> Tensor:
        assert batch.visible is not None
        assert batch.visible.shape == (1, 5, 5)
        from_end = batch.word.flip(1).cumsum(1).flip(1)
        return batch.word[:, :, None] & (from_end == 1)[:, None] & batch.word[:, None]

    targets = own(last_word)
    mask = torch.ones(1, 2, 5, dtype=torch.bool)
    every = slice(None)
    part = targets.batch.with_mask(mask, every, slice(1, 3), every)
    (matrix,) = targets.of(part)
    assert matrix[0].nonzero().tolist() == [[0, 3], [1, 3]]


def test_an_own_pattern_alone_is_scored_in_ranges_of_whole_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(units, "CELLS", 10)
    text = "[CLS] a b c [SEP]"
    targets = own(lambda batch: batch.same_sentence & (batch.offset == 2))
    weights = weights_of(text)
    scorer = PatternScorer(targets)
    attend(scorer, [weights])
    assert_allclose(scorer.sums()["every_key.weight"][0, :, :, 0], weights[:, :, 1, 3], rtol=1e-6)


def test_inputs_of_unlike_numbers_of_words_are_taken_by_themselves() -> None:
    """So their sums do not depend on the inputs beside them, on a CPU."""
    texts = ["[CLS] a ##b [SEP]", "[CLS] c d [SEP]", "[CLS] e ##f [SEP]", "[CLS] g ##h [SEP]"]
    batch = collate([input_of(text, "word") for text in texts])
    seen: list[slice] = []

    class Consumer:
        all_queries = False

        def take(self, parts: Any) -> None:
            seen.extend(part.token_block.inputs for part in parts)

    def show(block: Any) -> None:
        units.show_units(Units(batch), [Consumer()], block)

    weights = [random_weights(1, 1, 4, seed) for seed in range(4)]
    attend(show, weights)
    assert seen == [slice(0, 1), slice(1, 2), slice(2, 4)]
