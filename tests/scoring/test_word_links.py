"""Which words heads link, and how well, on attention that is written out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.handwritten_inputs import translations

from attnscan.errors import CaptureError
from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.model.attention_block import AttentionBlock, expand_to_both_texts
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.scores import FloatArray
from attnscan.scoring.blocks import PairSums
from attnscan.scoring.labels import _alignment
from attnscan.scoring.units import Units
from attnscan.scoring.word_links import AlignmentScorer, LinkReader

GRID = Grid((1, 1), AttentionKind.CROSS)
CHAT = ("le chat noir", "the black cat", "0-0 1-2 2-1")


def _block(weights: Sequence[Sequence[float]]) -> AttentionBlock:
    """One head's attention on one pair. Shape: [target token, source token]."""
    rows = torch.tensor(weights, dtype=torch.float32)
    sizes = [(len(weights), len(weights[0]))]
    visible = torch.ones(1, *rows.shape, dtype=torch.bool)
    return AttentionBlock(
        grid=GRID,
        layer=0,
        inputs=slice(0, 1),
        heads=slice(0, 1),
        weights=rows[None, None],
        visible=expand_to_both_texts(visible, sizes),
        query=None,
        key=None,
        scaling=None,
    )


def _links(batch: EncodedBatch, weights: Sequence[Sequence[float]]) -> set[tuple[int, int]]:
    (head,) = GRID
    reader = LinkReader(Units(batch), [head])
    reader(_block(weights))
    return reader.links(0, head)


def _sums(batch: EncodedBatch, weights: Sequence[Sequence[float]]) -> dict[str, float]:
    scorer = AlignmentScorer(Units(batch))
    scorer(_block(weights))
    return {name: values.item() for name, values in scorer.sums().items()}


def test_a_word_is_linked_with_the_word_that_it_attends_to_most() -> None:
    weights = [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]]
    assert _links(translations(CHAT), weights) == {(0, 0), (2, 1), (1, 2)}


def test_of_equals_it_is_the_first() -> None:
    weights = [[0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3], [0.5, 0, 0.5]]
    assert _links(translations(CHAT), weights) == {(1, 0), (0, 1), (0, 2)}


def test_special_tokens_make_no_links() -> None:
    batch = translations(("le chat </s>", "the cat </s>", "0-0 1-1"))
    weights = [[0.1, 0.05, 0.85], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]]
    assert _links(batch, weights) == {(0, 0)}


def test_pieces_of_a_word_count_together() -> None:
    """To a word the sum over its pieces, from it the mean."""
    batch = translations(("le chat noir", "the black cat", "0-0"))
    (encoded,) = batch.inputs
    merged = replace(encoded, words=(0, 0, 1, 0, 1, 1))  # pieces: le+chat, black+cat
    weights = [[0.3, 0.3, 0.4], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]]
    assert _links(collate([merged]), weights) == {(0, 0), (0, 1)}
    apart = [[0.3, 0.3, 0.4], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]
    assert _links(collate([merged]), apart) == {(0, 0), (1, 1)}  # a control


def test_attention_that_is_not_finite_is_an_error() -> None:
    weights = [[np.nan] * 3] * 3
    with pytest.raises(CaptureError, match="not finite"):
        _links(translations(CHAT), weights)


def test_sums_count_links_and_what_is_covered() -> None:
    weights = [[0.6, 0.3, 0.1], [0.1, 0.7, 0.2], [0.8, 0.1, 0.1]]  # links 0-0 1-1 0-2
    assert _sums(translations(CHAT), weights) == pytest.approx(
        {
            "covered": 1 + 1 + 0.4,
            "source_units": 3,
            "links": 3,
            "right_links": 1,
            "gold_links": 3,
        }
    )


def test_a_word_without_attention_makes_no_link() -> None:
    weights = [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    sums = _sums(translations(CHAT), weights)
    assert (sums["links"], sums["right_links"], sums["gold_links"]) == (1, 1, 3)


def test_links_of_a_target_of_one_word_are_counted() -> None:
    sums = _sums(translations(("le chat", "cat", "1-0")), [[0.2, 0.8]])
    assert (sums["links"], sums["right_links"], sums["gold_links"]) == (1, 1, 1)


def test_without_gold_links_none_are_counted() -> None:
    (encoded,) = translations(CHAT).inputs
    unlinked = replace(encoded, pair=encoded.known_pair.source)
    sums = _sums(collate([unlinked]), [[1.0, 0.0, 0.0]] * 3)
    assert list(sums) == ["covered", "source_units"]


def _pair_sums(right: Sequence[int], links: Sequence[int], gold: Sequence[int]) -> PairSums:
    def column(values: Sequence[int]) -> FloatArray:
        return np.array(values, float).reshape(-1, 1, 1, 1)

    keys = [f"{number:016x}" + 48 * "0" for number in range(len(right))]
    sums = {
        "covered": column(right),
        "source_units": column(gold),
        "right_links": column(right),
        "links": column(links),
        "gold_links": column(gold),
    }
    return PairSums.of(keys, sums)


def test_the_rate_and_its_error_by_hand() -> None:
    """Two pairs: 2 of 3 links are right of 4 gold links, and 1 of 1 of 2."""
    measured = _alignment(_pair_sums([2, 1], [3, 1], [4, 2]).sums, None)
    assert measured["precision"].value.item() == pytest.approx(3 / 4)
    assert measured["recall"].value.item() == pytest.approx(3 / 6)
    assert measured["aer"].value.item() == pytest.approx(1 - 2 * 3 / (4 + 6))
    # of precision S - 0.75 n is -0.25 and 0.25
    assert measured["precision"].se.item() == pytest.approx(2**0.5 * (2 * 0.25**2) ** 0.5 / 4)
    # of AER wrong is 3 of 7 and 1 of 3, so S - 0.4 n is 0.2 and -0.2
    assert measured["aer"].se.item() == pytest.approx(2**0.5 * (2 * 0.2**2) ** 0.5 / 10)


def test_nothing_to_divide_by_is_nan() -> None:
    measured = _alignment(_pair_sums([0, 0], [0, 0], [0, 0]).sums, None)
    assert np.isnan([measured[name].value.item() for name in ("precision", "recall", "aer")]).all()
