"""One input's attention: what queries and keys say is what the weights are; parts and readings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.small_scans import ARTICLE, BUNDLED, classify

from attnscan.errors import OptionError, SelectionError
from attnscan.model import tap
from attnscan.results.attention import (
    Attention,
    Chosen,
    Selection,
    carried_shares,
    check_drawn,
    shares_among_words,
)
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.scan.one_input import classify_input
from attnscan.scan.scanner import open_scanner


def test_products_of_neurons_add_up_to_the_weights(attention: Attention) -> None:
    logits = np.stack(
        [attention.products(Head(1, 8), query).sum(-1) for query in range(len(attention.tokens))]
    )
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert_allclose(weights, attention.weights[1, 8], atol=1e-6)


HEADS = (Head(5, 3), Head(0, 2))
ROWS = (2, 3, 7)


def test_a_part_is_a_part_of_every_reading(attention: Attention) -> None:
    part = attention.only(Chosen(attention.grid, ROWS, HEADS))
    assert part.weights.shape == (1, 2, 3, 19)
    assert part.grid is attention.grid
    assert part.visible is None
    for whole, piece in (
        (attention, part),
        (attention.carried, part.carried),
        (attention.carried.without_special_tokens, part.carried.without_special_tokens),
    ):
        for head in HEADS:
            assert_array_equal(piece.rows_of(head, [7, 2]), whole.weights[head.place][[7, 2]])
    assert_array_equal(part.products(HEADS[0], 4), attention.products(HEADS[0], 4))
    rows = attention.only(Chosen(attention.grid, ROWS))
    assert rows.weights.shape == (6, 12, 3, 19)
    assert rows.visible is not None
    assert rows.visible.shape == (6, 3, 19)
    with pytest.raises(SelectionError, match="the weights of 1-1 were not kept"):
        part.rows_of("1-1", [2])


def test_words_of_a_part_are_those_of_the_whole(attention: Attention) -> None:
    """Of all words strawberries alone is several tokens: two."""
    words = classify(ARTICLE, replace(BUNDLED, unit="word")).units
    unit = np.repeat(np.arange(len(words)), [2 if "straw" in word else 1 for word in words])
    whole = replace(attention, unit=tuple(unit.tolist()))
    rows = tuple(np.flatnonzero(unit >= 12).tolist())
    part = whole.only(Chosen(whole.grid, rows, HEADS)).in_words(words)
    assert part.rows == tuple(range(12, len(words))) and len(rows) == len(part.rows) + 1
    for head in HEADS:
        assert_allclose(
            part.rows_of(head, part.rows), whole.in_words(words).weights[head.place][12:], atol=1e-7
        )


@pytest.mark.parametrize("cells", [1, 10**9])
def test_what_is_kept_of_a_part_is_that_part(
    attention: Attention, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(tap, "_BLOCK_CELLS", cells)
    with open_scanner(BUNDLED) as scanner:
        for heads in ("5-3,0-2", None):
            selection = Selection(heads, window=(2, 7))
            variant = scanner.with_options(by="carried" if heads else None)
            result = classify_input(variant, ARTICLE, keep=selection)
            kept = result.kept_attention()
            has_all_heads = heads is None
            assert (result.labels.habits is not None) == has_all_heads
            assert (result.labels.classes is not None) == has_all_heads
            expected = attention.only(
                selection.chosen(attention.grid, attention.tokens, attention.segments, ())
            )
            assert kept.chosen == expected.chosen
            for name in ("weights", "query", "key", "norms"):
                assert_allclose(getattr(kept, name), getattr(expected, name), rtol=1e-5, atol=1e-5)
            assert (kept.visible is not None) == has_all_heads


def test_it_survives_a_file_but_for_its_neurons(attention: Attention) -> None:
    again = Attention.of(attention.saved(), attention.sentence, (), AttentionKind.ONLY)
    assert (again.weights == attention.weights).all() and again.tokens == attention.tokens
    assert again.query is None and again.key is None and again.scaling == ()


TOKENS = ("[CLS]", "the", "cat", "[SEP]", "a", "##s", "[SEP]", "[PAD]")
SEGMENTS = (0, 0, 0, 0, 1, 1, 1, 0)
GRID = Grid((2, 3))


def small(**changed: Any) -> Attention:
    """Two layers of three heads on a pair of sentences, with padding."""
    size = len(TOKENS)
    weights = np.random.default_rng(0).random((2, 3, size, size), dtype=np.float32)
    fields: dict[str, Any] = {
        "tokens": TOKENS,
        "sentence": (-1, 0, 0, -1, 1, 1, -1, -2),
        "segments": SEGMENTS,
        "weights": weights / weights.sum(-1, keepdims=True),
        "visible": np.ones((2, size, size), dtype=bool),
        "query": None,
        "key": None,
    }
    return Attention(**(fields | changed))


@pytest.mark.parametrize(
    ("selection", "queries", "keys"),
    [
        (Selection(), range(8), range(8)),
        (Selection(token=2), [2], range(8)),
        (Selection(token="cat"), [2], range(8)),
        (Selection(token="[SEP]#2"), [6], range(8)),
        (Selection(from_="B"), [4, 5, 6], range(8)),
        (Selection(to="B"), range(8), [4, 5, 6]),
        (Selection(from_="A", to="B", window=(3, 5)), [3], [4, 5]),
        (Selection(window=(2, 4)), [2, 3, 4], [2, 3, 4]),
        # A token is asked about wherever the window of its keys is
        (Selection(token=1, window=(2, 4)), [1], [2, 3, 4]),
    ],
)
def test_a_selection_has_queries_and_keys(selection: Selection, queries: Any, keys: Any) -> None:
    assert selection.cells(TOKENS, SEGMENTS) == (tuple(queries), tuple(keys))


@pytest.mark.parametrize(
    ("selection", "queries", "keys"),
    [
        (Selection(), range(3, 8), range(3)),
        (Selection(token="a"), [4], range(3)),
        (Selection(token=0), [3], range(3)),
        (Selection(window=(1, 2)), range(3, 8), [1, 2]),
    ],
)
def test_in_cross_attention_the_target_asks_and_the_source_is_read(
    selection: Selection, queries: Any, keys: Any
) -> None:
    assert selection.cells(TOKENS, SEGMENTS, 3) == (tuple(queries), tuple(keys))


@pytest.mark.parametrize("selection", [Selection(from_="A"), Selection(to="B")])
def test_cross_attention_has_no_sentences_to_choose(selection: Selection) -> None:
    with pytest.raises(OptionError, match="the target asks and the source is read; leave out"):
        selection.cells(TOKENS, SEGMENTS, 3)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(from_="B", window=(0, 2)), "no token of sentence B is within what was asked"),
        (Selection(window=(9, 12)), "no token is within .*; the input has tokens 0 to 7"),
        (Selection(token=4, from_="A"), "no token of sentence A is within"),
    ],
)
def test_a_selection_without_a_token_is_refused(selection: Selection, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        selection.cells(TOKENS, SEGMENTS)


def test_what_is_kept_are_whole_rows_of_all_pieces_of_words() -> None:
    unit = (0, 1, 2, 3, 4, 4, 5, 6)
    chosen = Selection("1-2,0-0", token="##s").chosen(GRID, TOKENS, SEGMENTS, unit)
    assert chosen.rows == (4, 5)
    assert chosen.heads == (Head(1, 2), Head(0, 0))
    assert Selection(token="##s").chosen(GRID, TOKENS, SEGMENTS, ()).rows == (5,)
    assert Selection().chosen(GRID, TOKENS, SEGMENTS, ()).heads is None


def test_drawn_cross_attention_keeps_the_source_too() -> None:
    drawn = Selection(is_drawn=True).chosen(GRID, TOKENS, SEGMENTS, (), 3)
    assert drawn.rows == tuple(range(8))
    assert Selection().chosen(GRID, TOKENS, SEGMENTS, (), 3).rows == tuple(range(3, 8))


def test_two_thousand_tokens_are_drawn_and_no_more() -> None:
    check_drawn(2048)
    with pytest.raises(SelectionError, match="2,049 tokens are too many to be drawn"):
        check_drawn(2049)
    many = ("a",) * 2049
    segments = (0,) * 2049
    with pytest.raises(SelectionError, match="too many"):
        Selection(is_drawn=True).chosen(GRID, many, segments, ())
    assert len(Selection().chosen(GRID, many, segments, ()).rows) == 2049


@pytest.mark.parametrize(
    ("chosen", "is_whole"),
    [
        (None, True),
        (Chosen(GRID, tuple(range(8))), True),
        (Chosen(GRID, tuple(range(7))), False),
        (Chosen(GRID, tuple(range(8)), (Head(0, 0),)), False),
    ],
)
def test_attention_is_whole_where_every_row_of_every_head_is_kept(
    chosen: Chosen | None, is_whole: bool
) -> None:
    attention = small() if chosen is None else small().only(chosen)
    assert attention.is_whole == is_whole


def test_padding_is_in_no_passage() -> None:
    attention = small()
    assert attention.passage == list(range(7))
    assert attention.query_tokens == attention.key_tokens == list(range(7))


def test_a_passage_of_cross_attention_has_queries_behind_its_keys() -> None:
    attention = small(source=3)
    assert attention.key_tokens == [0, 1, 2]
    assert attention.query_tokens == [3, 4, 5, 6]


def test_a_head_that_was_not_kept_is_named() -> None:
    part = small().only(Chosen(GRID, (1, 2), (Head(1, 2), Head(0, 1))))
    assert part.place("0-1") == (0, 1)
    assert small().place("1-2") == (1, 2)
    with pytest.raises(SelectionError, match="the weights of 1-1 were not kept"):
        part.place("1-1")


def test_what_heads_carry_needs_the_lengths_of_values() -> None:
    norms = np.arange(48, dtype=np.float32).reshape(2, 3, 8)
    attention = small(norms=norms)
    amounts = attention.weights * norms[:, :, None]
    assert_allclose(attention.carried.weights, amounts / amounts.sum(-1, keepdims=True), rtol=1e-6)
    with pytest.raises(OptionError, match="what heads carry is not in this result"):
        _ = small().carried


def test_a_row_that_carries_nothing_is_zero() -> None:
    shares = carried_shares(np.ones((2, 2)), np.array([0.0, 0.0]))
    assert shares.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(("on_words", "shares"), [(1e-6, 1), (0.9e-6, 0)])
def test_a_row_with_next_to_nothing_on_words_has_no_shares(on_words: float, shares: int) -> None:
    weights = np.array([[1 - on_words, on_words, 0]], np.float32)
    row = shares_among_words(weights, np.array([False, True, True]))
    assert row.tolist() == [[0, shares, 0]]


def test_words_have_the_sum_of_their_pieces_and_give_their_mean() -> None:
    attention = small(unit=(0, 1, 2, 3, 4, 4, 5, 6))
    words = ("[CLS]", "the", "cat", "[SEP]", "as", "[SEP]", "[PAD]")
    merged = attention.in_words(words)
    assert (merged.tokens, merged.sentence) == (words, (-1, 0, 0, -1, 1, -1, -2))
    assert merged.segments == (0, 0, 0, 0, 1, 1, 0)
    to_words = np.add.reduceat(attention.weights, [0, 1, 2, 3, 4, 6, 7], axis=-1)
    assert_allclose(merged.weights[:, :, 4], to_words[:, :, 4:6].mean(2), rtol=1e-6)
    assert_allclose(merged.weights[:, :, 5], to_words[:, :, 6], rtol=1e-6)
    assert merged.source == 0
    assert attention.in_words(TOKENS) is attention


def test_words_of_cross_attention_begin_behind_the_sources_words() -> None:
    attention = small(unit=(0, 1, 1, 2, 3, 3, 4, 5), source=3)
    merged = attention.in_words(("[CLS]", "thecat", "[SEP]", "as", "[SEP]", "[PAD]"))
    assert merged.source == 2


def test_a_file_of_cross_attention_holds_its_cells_alone() -> None:
    size = len(TOKENS)
    weights = np.zeros((2, 3, size, size), np.float32)
    weights[:, :, 3:, :3] = 1 / 3
    attention = small(weights=weights, source=3, kind=AttentionKind.CROSS)
    saved = attention.saved()
    assert saved.array == "cross_attention"
    assert saved.attention.shape == (2, 3, size - 3, 3)
    assert saved.special == (True, False, False, True, False, False, True, False)
    again = Attention.of(saved, attention.sentence, (), AttentionKind.CROSS)
    assert_array_equal(again.weights, weights)
    assert again.visible is not None
    assert_array_equal(again.visible, weights.any(1))


def test_a_file_of_the_only_attention_holds_all_of_it() -> None:
    saved = small().saved()
    assert saved.array == "attention"
    assert saved.source == 0
    assert saved.padding == (False,) * len(TOKENS)
    assert_array_equal(saved.attention, small().weights)
