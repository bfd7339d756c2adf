"""One input's attention, kept whole: what the queries and keys say is what the weights are."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.small_scans import ARTICLE, BUNDLED, classify

from attnscan.errors import SelectionError
from attnscan.model import tap
from attnscan.results.attention import Attention, Chosen, Selection
from attnscan.results.grid import AttentionKind, Head
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
    assert (
        part.weights.shape == (1, 2, 3, 19) and part.grid is attention.grid and part.visible is None
    )
    for whole, piece in (
        (attention, part),
        (attention.carried, part.carried),
        (attention.carried.without_special_tokens, part.carried.without_special_tokens),
    ):
        for head in HEADS:
            assert_array_equal(piece.rows_of(head, [7, 2]), whole.weights[head.place][[7, 2]])
    assert_array_equal(part.products(HEADS[0], 4), attention.products(HEADS[0], 4))
    rows = attention.only(Chosen(attention.grid, ROWS))
    assert (
        rows.weights.shape == (6, 12, 3, 19)
        and rows.visible is not None
        and rows.visible.shape == (6, 3, 19)
    )
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
