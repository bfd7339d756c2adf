"""Words that are given, of each kind of tokenizer, and what a batch says of their units."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers_of_kinds import KINDS, written_in_python

from attnscan.errors import InputError
from attnscan.inputs.batch import SPECIAL, EncodedInput, collate
from attnscan.inputs.encode import encode_pair, encode_tokens, given_words
from attnscan.inputs.pairs import Pair
from attnscan.inputs.sentence import NO_WORD, Sentence
from attnscan.inputs.tokens import Unit, bare

A, B = "The cat sat on the mat.", "a cat, and the strawberries!"


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]()


def annotated(text: str, pattern: str = r"\w+|[^\w\s]") -> Sentence:
    """Its words by a regular expression, each tagged with its own text and its number."""
    matches = list(re.finditer(pattern, text))
    spans = [match.span() for match in matches]
    return Sentence(text, spans, {"form": [match[0] for match in matches], "number": range(len(matches))})


def encoded(tokenizer: Any, a: str | Sentence, b: str | Sentence | None = None, unit: Unit = "word") -> EncodedInput:
    return encode_pair(tokenizer, Pair(a, b), unit, 10**6, truncate=False)


def test_given_words_are_the_units(tokenizer: Any) -> None:
    """Other words than the tokenizer would make: "sat on" is one, and "strawberries" are two."""
    a, b = annotated(A, r"sat on|\w+|\."), annotated(B, "straw|berries|[a-z]+|[,!]")
    read = encoded(tokenizer, a, b)
    of_words = [(unit, s) for unit, s in zip(read.units, read.unit_sentence, strict=True) if s != SPECIAL]
    assert of_words[:6] == [(form, 0) for form in ("The", "cat", "sat on", "the", "mat", ".")]
    assert [bare(unit) for unit, s in of_words if s == 1 and unit not in ("straw", "berries")][:5] == [
        *("a", "cat", ",", "and", "the")
    ]
    batch = collate([read])
    forms = [form for form, s in zip(batch.tags("form")[0], read.unit_sentence, strict=True) if s == 0]
    assert forms == [unit for unit, s in of_words if s == 0]
    numbers = [number for number, s in zip(batch.word_number[0].tolist(), read.unit_sentence, strict=True) if s == 0]
    assert numbers == list(range(6))


def test_tokens_have_the_numbers_and_tags_of_their_words(tokenizer: Any) -> None:
    read = encoded(tokenizer, annotated(A), annotated(B), "token")
    for token, (number, form) in enumerate(zip(read.unit_words, read.tags("form"), strict=True)):
        if read.sentence[token] == SPECIAL:
            assert (number, form) == (NO_WORD, None)
        elif number != NO_WORD:
            text, (first, last) = read.sentences[read.sentence[token]], read.spans[token]
            assert text[first:last].strip() in str(form)
            assert read.tags("number")[token] == number
    assert {0, 1} == {s for s, number in zip(read.sentence, read.words, strict=True) if number != NO_WORD}


def test_a_sentence_without_words_has_those_of_the_tokenizer(tokenizer: Any) -> None:
    read, plain = encoded(tokenizer, A, annotated(B, "a cat|[a-z]+|[,!]")), encoded(tokenizer, A, B)
    for side, same in ((0, True), (1, False)):
        own, usual = (
            [unit for unit, s in zip(one.units, one.unit_sentence, strict=True) if s == side] for one in (read, plain)
        )
        assert (own == usual) is same
    assert set(read.unit_words[: read.unit_sentence.index(1)]) == {NO_WORD}


def test_without_given_words_there_are_no_numbers(tokenizer: Any) -> None:
    read = encoded(tokenizer, A, B)
    assert read.words == () and set(collate([read]).word_number[0].tolist()) == {NO_WORD}


def test_pieces_of_no_word_stand_alone() -> None:
    read = encoded(KINDS["wordpiece"](), Sentence("the cat sat .", [(4, 7)], {"upos": ["NOUN"]}))
    assert read.units == ("[CLS]", "the", "cat", "sat", ".", "[SEP]")
    assert read.tags("upos") == [None, None, "NOUN", None, None, None]


def test_batches_pad_numbers_and_tags() -> None:
    tokenizer = KINDS["wordpiece"]()
    batch = collate([encoded(tokenizer, annotated(text)) for text in ("the cat", "the cat sat")])
    assert batch.word_number.tolist() == [[-1, 0, 1, -1, -1], [-1, 0, 1, 2, -1]]
    assert batch.tags("form") == [[None, "the", "cat", None, None], [None, "the", "cat", "sat", None]]


def test_hidden_words_keep_their_numbers() -> None:
    tokenizer = KINDS["wordpiece"]()
    read = encoded(tokenizer, annotated("the cat sat", "the cat|sat"))
    hidden = read.hiding([1, 2], tokenizer.mask_token_id, "[MASK]")
    assert read.units == ("[CLS]", "the cat", "sat", "[SEP]")
    assert hidden.units == ("[CLS]", "[MASK][MASK]", "sat", "[SEP]") and hidden.words == read.words


def test_a_tag_that_is_not_there_is_named_with_those_that_are() -> None:
    tokenizer = KINDS["wordpiece"]()
    both = encoded(tokenizer, annotated(A), annotated(B))
    with pytest.raises(InputError, match=r"sentence A has no tag 'forms'; did you mean 'form'\?"):
        both.tags("forms")
    with pytest.raises(InputError, match="sentence A has no tag 'upos'; its tags are form, number"):
        collate([both]).tags("upos")
    with pytest.raises(InputError, match=r"sentence B has no tag 'form'; give Sentence\("):
        encoded(tokenizer, annotated(A), B).tags("form")
    with pytest.raises(InputError, match="sentence A has no tag 'form'"):
        encode_tokens(["the", "cat"], [0, 0], [False] * 2, [False] * 2, "word").tags("form")


def test_a_cut_input_keeps_the_words_that_are_left(tokenizer: Any) -> None:
    """A text that is far too long is cut before it is tokenized."""
    for times in (4, 400):
        long = annotated("the cat sat . " * times)
        read = encode_pair(tokenizer, Pair(long), "word", 12, truncate=True)
        assert read.truncated
        forms = [form for form in read.tags("form") if form is not None]
        assert forms == list(long.tags["form"])[: len(forms)] and len(forms) > 2


def test_a_tokenizer_that_does_not_tell_characters_is_refused(tmp_path: Path) -> None:
    tokenizer = written_in_python(tmp_path)
    assert encoded(tokenizer, "the cat").units
    with pytest.raises(InputError, match=r"PhobertTokenizer does not tell which characters .* leave the words out"):
        encoded(tokenizer, annotated("the cat"))


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 0)] * 3, "no token of sentence A shares a character with one of its words"),
        ([(4, 7), (0, 3), (0, 0)], "the tokenizer Some does not cut sentence A from left to right"),
        ([(4, 5), (0, 1), (5, 7)], "the tokenizer Some does not cut sentence A from left to right"),
    ],
)
def test_tokens_at_odd_places_are_refused(spans: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        given_words(Pair(annotated("the cat")), [0, 0, 0], spans, "Some")


def test_what_is_given_is_not_asked_of_plain_sentences() -> None:
    nothing: Any = SimpleNamespace()
    assert given_words(Pair("the cat"), nothing, nothing, "Some") == ()
