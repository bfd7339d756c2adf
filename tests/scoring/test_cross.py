"""Patterns of cross attention beyond their drawings: padding, places of every length, special tokens."""

from __future__ import annotations

import math

import pytest
import torch
from written import translations

from attnscan.errors import OptionError
from attnscan.scoring.cross import CROSS_PATTERNS, UNALIGNED_PATTERNS, aligned, cross_patterns, even, same_place
from attnscan.scoring.patterns import PATTERNS


@pytest.mark.parametrize(("source", "target"), [(1, 1), (1, 4), (4, 1), (5, 2), (2, 5), (6, 6), (7, 4)])
def test_the_same_place_is_the_rounded_one(source: int, target: int) -> None:
    batch = translations((" ".join("a" * source) + " </s>", " ".join("b" * target) + " </s>", ""))
    cells = same_place(batch)[0].nonzero().tolist()
    places = [math.floor(q * (source - 1) / (target - 1) + 0.5) if target > 1 else 0 for q in range(target)]
    assert cells == [[source + 1 + query, place] for query, place in enumerate(places)]


def test_shorter_pairs_of_a_batch_have_the_cells_that_they_have_alone() -> None:
    written = ("a b c </s>", "x y </s>", "0-0 2-1"), ("a </s>", "x y z w </s>", "0-3")
    together = translations(*written)
    for row, pair in enumerate(written):
        alone = translations(pair)
        size = alone.word.shape[1]
        for function in (aligned, same_place, even):
            cells = function(together)[row]
            assert torch.equal(cells[:size, :size], function(alone)[0]) and not cells[size:].any()


def test_no_pattern_but_delimiter_looks_at_special_tokens_and_none_asks_them() -> None:
    batch = translations(("<s> a b </s>", "<s> a c </s>", "0-0"))
    visible = torch.zeros(1, 8, 8, dtype=torch.bool)
    visible[:, 4:, :4] = True
    under = batch.under(visible)
    for pattern in CROSS_PATTERNS:
        assert pattern.target is not None
        cells = (pattern.target(under)[0] > 0) & visible[0]
        assert cells[5:7].any() == (pattern.id != "before-aligned") and not cells[[0, 1, 2, 3, 4, 7]].any()
        assert bool(cells[:, [0, 3]].any()) == (pattern.id == "delimiter")


def test_what_is_told_by_links_needs_links() -> None:
    assert cross_patterns() == UNALIGNED_PATTERNS
    assert cross_patterns(["aligned"], aligned=True) == CROSS_PATTERNS
    with pytest.raises(OptionError, match="before-aligned is told by gold alignments"):
        cross_patterns(["even", "before-aligned"])


def test_no_two_patterns_share_a_name_or_a_letter() -> None:
    every = {*PATTERNS, *CROSS_PATTERNS}
    assert len({pattern.id for pattern in every}) == len({pattern.letter for pattern in every}) == len(every)
