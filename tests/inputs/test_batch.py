"""Inputs side by side: which of their units are words, alike, of one sentence, and seen."""

from dataclasses import replace

import pytest
import torch
from support.handwritten_inputs import batch_of, input_of, translations

from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.sentence import NO_WORD, PADDING, SPECIAL, EncodedInput, Pair, Sentence
from attnscan.inputs.vocabulary import WholeWords

WORDS = WholeWords({"the": 5, "cat": 6, "sat": 7}, "##")


def _cells(mask: torch.Tensor, number: int = 0) -> set[tuple[int, int]]:
    """Where one input's mask is true, as (query, key)."""
    return {(query, key) for query, key in mask[number].nonzero().tolist()}


def _pieces() -> EncodedInput:
    """Two words of two pieces each, and one of one."""
    return input_of("[CLS] straw ##berries sat cat ##s [SEP]", unit="word")


def test_short_inputs_are_filled_up_with_padding() -> None:
    batch = batch_of("[CLS] the cat . [SEP] a [SEP]", "[CLS] sat [SEP]")
    assert len(batch) == 2
    assert batch.sentence[0].tolist() == [SPECIAL, 0, 0, 0, SPECIAL, 1, SPECIAL]
    assert batch.sentence[1].tolist() == [SPECIAL, 0, SPECIAL, *[PADDING] * 4]
    assert batch.word[1].tolist() == [False, True, *[False] * 5]
    assert batch.special[1].tolist() == [True, False, True, *[False] * 4]
    assert batch.punctuation.nonzero().tolist() == [[0, 3]]


def test_what_the_model_is_given_is_filled_up_too() -> None:
    short = replace(input_of("[CLS] [SEP]"), model_inputs={"input_ids": [1, 2], "mask": [1, 1]})
    ids = {"input_ids": [1, 5, 2], "mask": [1, 1, 1]}
    batch = collate([replace(input_of("[CLS] a [SEP]"), model_inputs=ids), short], pad_id=9)
    assert batch.model_inputs["input_ids"].tolist() == [[1, 5, 2], [1, 2, 9]]
    assert batch.model_inputs["mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_delimiters_are_told_by_the_words_around_them() -> None:
    start, middle, end = batch_of("[CLS] a [SEP] b [SEP]", "[CLS] a [SEP]").delimiters
    assert start.nonzero().tolist() == [[0, 0], [1, 0]]
    assert middle.nonzero().tolist() == [[0, 2]]
    assert end.nonzero().tolist() == [[0, 4], [1, 2]]


def test_of_cross_attention_delimiters_are_the_sources() -> None:
    batch = translations(("<s> a b </s>", "<s> c </s>", "0-0"))
    start, _, end = batch.delimiters
    assert (start[0].tolist()[0], end[0].tolist()[3]) == (True, True)


def test_words_of_one_sentence_are_in_it_with_each_other() -> None:
    batch = batch_of("[CLS] a b [SEP] c [SEP]")
    assert _cells(batch.same_sentence) == {(1, 1), (1, 2), (2, 1), (2, 2), (4, 4)}


def test_words_of_one_text_are_alike_without_case() -> None:
    batch = batch_of("[CLS] The cat . [SEP] the . [SEP]")
    own = {(place, place) for place in (1, 2, 5)}
    assert _cells(batch.alike) == own | {(1, 5), (5, 1)}
    assert batch.recurs.nonzero().tolist() == [[0, 1], [0, 5]]


def test_related_words_are_alike_and_told_apart_from_identical_ones() -> None:
    related = torch.zeros(1, 6, 6, dtype=torch.bool)
    related[0, 1, 4] = related[0, 4, 1] = True
    related[0, 0, 2] = related[0, 2, 0] = True  # a delimiter is alike to none
    batch = replace(batch_of("[CLS] king cat [SEP] queen [SEP]"), related=related)
    assert (1, 4) in _cells(batch.alike)
    assert (0, 2) not in _cells(batch.alike)
    assert batch.related_pairs == ((1, 4),)


def test_a_key_counts_from_its_query() -> None:
    assert batch_of("a b c").offset[0].tolist() == [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]


def test_a_mask_hides_what_a_query_does_not_see() -> None:
    batch = batch_of("a b a")
    visible = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    assert _cells(batch.with_mask(visible).alike) == {(0, 0), (1, 1), (2, 2), (2, 0)}


def test_ranges_of_queries_and_keys_cut_the_cells() -> None:
    batch = batch_of("a b a", "a b b")
    visible = torch.ones(1, 2, 3, dtype=torch.bool)
    part = batch.with_mask(visible, slice(1, 2), slice(1, 3), slice(0, 3))
    assert len(part) == len(part.inputs) == 1
    assert part.alike[0].tolist() == [[False, True, True], [False, True, True]]
    assert part.offset[0].tolist() == [[-1, 0, 1], [-2, -1, 0]]


def test_a_word_sees_what_any_of_its_pieces_sees() -> None:
    batch = collate([_pieces()])
    visible = torch.zeros(1, 7, 7, dtype=torch.bool)
    visible[0, 2, 5] = True  # ##berries sees ##s
    seen = batch.with_mask(visible).visible
    assert seen is not None
    assert _cells(seen) == {(1, 3)}


def test_ranges_of_tokens_are_ranges_of_words() -> None:
    batch = collate([_pieces()])
    visible = torch.zeros(1, 3, 7, dtype=torch.bool)
    visible[0, 2, 0] = True  # the third token of the range is the second piece of `cats`
    part = batch.with_mask(visible, rows=slice(3, 6))
    assert (part.queries, part.keys) == (slice(2, 4), slice(None))
    assert part.visible is not None
    assert _cells(part.visible) == {(1, 0)}


def test_a_word_is_punctuation_if_all_of_its_pieces_are() -> None:
    pieces = replace(input_of("don ' t . ."), unit=(0, 0, 0, 1, 1), units=("don't", ".."))
    assert collate([pieces]).punctuation[0].tolist() == [False, True]


def test_tags_and_numbers_are_of_given_words() -> None:
    pair = Pair(Sentence("the cat", [(0, 3), (4, 7)], {"part": ["DET", "NOUN"]}))
    tagged = replace(input_of("[CLS] the cat [SEP]"), pair=pair, words=(NO_WORD, 0, 1, NO_WORD))
    batch = collate([tagged, replace(input_of("[CLS] [SEP]"), pair=pair)])
    assert batch.word_number.tolist() == [[NO_WORD, 0, 1, NO_WORD], [NO_WORD] * 4]
    assert batch.tags("part") == [[None, "DET", "NOUN", None], [None] * 4]


def test_the_targets_words_look_at_the_sources() -> None:
    batch = translations(("a b </s>", "c </s>", "0-0"), ("a </s>", "c d </s>", "0-0"))
    assert batch.query_word.nonzero().tolist() == [[0, 3], [1, 2], [1, 3]]
    assert batch.key_word.nonzero().tolist() == [[0, 0], [0, 1], [1, 0]]


def test_frequent_words_are_known_by_the_vocabulary() -> None:
    inputs = [input_of("[CLS] the dog sat [SEP]")]
    assert collate(inputs).frequent is None
    frequent = collate(inputs, vocabulary=WORDS).frequent
    assert frequent is not None
    assert frequent[0].tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_batch_moves_to_a_device_as_a_whole(device: str) -> None:
    ids = {"input_ids": [1, 5, 2]}
    batch = collate([replace(input_of("[CLS] a [SEP]"), model_inputs=ids)])
    moved = batch.to(torch.device(device))
    assert {values.device.type for values in _tensors(moved)} == {device}
    assert [values.shape for values in _tensors(moved)] == [
        values.shape for values in _tensors(batch)
    ]


def test_numbers_are_the_same_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors travel together as bytes; here the other device is this one."""
    batch = collate([replace(_pieces(), model_inputs={"input_ids": [1, 5, 6, 7, 8, 9, 2]})])
    other = torch.device("cuda")
    to = torch.Tensor.to
    monkeypatch.setattr(
        torch.Tensor, "to", lambda self, *where: self if where == (other,) else to(self, *where)
    )
    moved = batch.to(other)
    for before, after in zip(_tensors(batch), _tensors(moved), strict=True):
        assert after.dtype == before.dtype
        assert torch.equal(before, after)


def _tensors(batch: EncodedBatch) -> list[torch.Tensor]:
    own = [values for values in vars(batch).values() if isinstance(values, torch.Tensor)]
    return [*own, *batch.model_inputs.values()]
