"""Patterns beyond their drawings: padding, single sentences, words of several pieces, related words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from written import batch_of

from attnscan.inputs.batch import EncodedBatch
from attnscan.scoring.pattern import Pattern
from attnscan.scoring.patterns import (
    PATTERNS,
    bag_of_words,
    cross_sentence,
    delimiter,
    identical,
    next_word,
    previous_word,
)
from attnscan.views.palette import paper_color

FUNCTIONS = [pattern.target for pattern in PATTERNS if pattern.target is not None]


def _edges(target: torch.Tensor, tokens: list[str]) -> set[str]:
    """A target's entries as `query>key`, with places to tell equal words apart."""
    return {f"{tokens[q]}{q}>{tokens[k]}{k}" for q, k in target.nonzero().tolist()}


def test_the_seven_in_the_order_of_every_table() -> None:
    assert [pattern.id for pattern in PATTERNS] == [
        "next-word",
        "previous-word",
        "identical",
        "cross-sentence",
        "predictive",
        "delimiter",
        "bag-of-words",
    ]
    assert (
        len({pattern.letter for pattern in PATTERNS}) == len({pattern.color for pattern in PATTERNS}) == len(PATTERNS)
    )


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_all_that_screens_and_explanations_say_of_a_pattern_stands_in_its_entry(pattern: Pattern) -> None:
    assert re.fullmatch("#[0-9a-f]{6}", pattern.color) and paper_color(pattern.id) == pattern.color
    assert all((pattern.clause, pattern.counts, pattern.queries, pattern.keys, pattern.source))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_special_tokens_and_padding_are_never_queries_and_padding_never_a_key(function: object) -> None:
    batch = batch_of("[CLS] a cat [SEP] a cat ran [SEP]", "[CLS] a a [SEP]")
    target = function(batch)  # type: ignore[operator]
    assert target.shape == (2, 8, 8)
    assert not target[~batch.word].any()
    padding = ~batch.word & ~batch.special
    assert not target.transpose(1, 2)[padding].any()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_target_does_not_depend_on_its_neighbours_in_the_batch(function: object) -> None:
    texts = ["[CLS] a cat . [SEP] a cat ran . [SEP]", "[CLS] a a [SEP]", "[CLS] straw ##berries [SEP] ##berries [SEP]"]
    together = function(batch_of(*texts))  # type: ignore[operator]
    for row, text in zip(together, texts, strict=True):
        alone = function(batch_of(text))[0]  # type: ignore[operator]
        assert torch.equal(row[: len(alone), : len(alone)], alone)


def test_a_single_sentence_has_no_other_sentence() -> None:
    assert not cross_sentence(batch_of("[CLS] a cat saw a cat [SEP]")).any()


def test_next_and_previous_stop_at_the_sentence() -> None:
    text = "[CLS] a b [SEP] c d [SEP]"
    assert _edges(next_word(batch_of(text))[0], text.split()) == {"a1>b2", "c4>d5"}
    assert _edges(previous_word(batch_of(text))[0], text.split()) == {"b2>a1", "d5>c4"}


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("[CLS] The cat the [SEP]", {"The1>The1", "The1>the3", "the3>The1", "the3>the3"}),  # case is folded
        ("[CLS] , a , [SEP]", set()),  # punctuation does not count
        ("[CLS] s ##s [SEP]", set()),  # a piece is not the word it looks like
        ("[CLS] Ġcat cat [SEP]", {"Ġcat1>Ġcat1", "Ġcat1>cat2", "cat2>Ġcat1", "cat2>cat2"}),  # marks are taken off
        ("[CLS] ▁cat cat [SEP]", {"▁cat1>▁cat1", "▁cat1>cat2", "cat2>▁cat1", "cat2>cat2"}),
        ("[CLS] [SEP] [SEP]", set()),  # special tokens are no words
    ],
)
def test_which_words_are_identical(text: str, edges: set[str]) -> None:
    assert _edges(identical(batch_of(text))[0], text.split()) == edges


def _with_related(batch: EncodedBatch, one: int, other: int) -> EncodedBatch:
    related = torch.zeros(1, batch.word.shape[1], batch.word.shape[1], dtype=torch.bool)
    related[0, one, other] = related[0, other, one] = True
    return replace(batch, related=related)


def test_related_words_count_as_identical_ones_do() -> None:
    text = "[CLS] a cat [SEP] one kitten [SEP]"
    batch = _with_related(batch_of(text), 2, 5)
    assert _edges(identical(batch)[0], text.split()) == {"cat2>cat2", "cat2>kitten5", "kitten5>cat2", "kitten5>kitten5"}
    assert _edges(cross_sentence(batch)[0], text.split()) == {"cat2>kitten5", "kitten5>cat2"}


def test_a_word_related_to_a_delimiter_or_a_comma_gains_nothing() -> None:
    batch = batch_of("[CLS] a , [SEP]")
    assert not identical(_with_related(batch, 1, 0)).any()
    assert not identical(_with_related(batch, 1, 2)).any()


def test_words_of_several_pieces_are_one_unit() -> None:
    batch = batch_of("[CLS] fresh straw ##berries [SEP] strawberries [SEP]", unit="word")
    assert batch.word.sum() == 3
    assert cross_sentence(batch).nonzero().tolist() == [[0, 2, 4], [0, 4, 2]]


def test_every_delimiter_is_a_target_of_every_word() -> None:
    assert delimiter(batch_of("[CLS] a . [SEP] b [SEP]"))[0].sum() == 3 * 3


def test_an_even_spread_sums_to_one() -> None:
    batch = batch_of("[CLS] a b . [SEP] c [SEP]")
    rows = bag_of_words(batch)[0].sum(-1)
    assert rows[batch.word[0]].tolist() == pytest.approx([1, 1, 1, 1])
