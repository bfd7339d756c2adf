"""Tokens by name, and what is said when there are none; whole words, by the spelling of each kind of tokenizer."""

from __future__ import annotations

import pytest
from tokenizers_of_kinds import KINDS, encode_pair

from attnscan.errors import SelectionError
from attnscan.inputs.batch import WholeWords, whole_words
from attnscan.inputs.encode import token_named
from attnscan.inputs.sentence import NO_WORD, Pair

TOKENS = ["[CLS]", "the", "store", "ĠThe", "Ġstore", "#", "##s", "2"]


@pytest.mark.parametrize(("text", "index"), [("store", 2), ("store#2", 4), ("4", 4), ("#", 5), ("##s", 6), ("2#1", 7)])
def test_a_token_is_named_by_its_text_or_its_place(text: str, index: int) -> None:
    assert token_named(text, TOKENS) == index


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stor", "the input has no token 'stor'; did you mean 'store'?"),
        *((text, f"the input has no token '{text}'") for text in ("store#3", "store#0", "")),
        *(
            (text, f"the input has no token '{text}'; give a token's text, or an index from 0 to 7")
            for text in ("xyz", "99")
        ),
    ],
)
def test_no_such_token(text: str, message: str) -> None:
    with pytest.raises(SelectionError) as error:
        token_named(text, TOKENS)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("mark", "tokens", "sentence", "unit", "ids"),
    [
        ("##", "cat ##s dog ## . the", "000000", "012345", [5, -1, 3, -1, -1, 0]),
        ("##", "[CLS] cat dog [SEP] the", "sAAsB", "01234", [-1, 5, 3, -1, 0]),
        ("##", "cat cat dog", "AAA", "001", [-1, 3]),  # a word of two tokens
        ("Ġ", "cat ▁cat cat ▁the dog", "AAAAB", "01234", [5, 5, -1, 0, 3]),  # a sentence begins without the mark
        ("Ġ", ". cat", "AA", "01", [-1, 5]),  # and so does what follows punctuation
        ("@@", "rain@@ cat dog", "AAA", "012", [-1, -1, 3]),
        ("</w>", "cat cat</w> dog</w>", "AAA", "012", [-1, -1, 3]),
        ("", "cat dog ##s", "AAA", "012", [5, 3, -1]),
    ],
)
def test_words_by_their_marks_and_neighbours(mark: str, tokens: str, sentence: str, unit: str, ids: list[int]) -> None:
    words = WholeWords({"cat": 5, "dog": 3, "the": 0}, mark)
    of_sentence = ["AB".find(letter) if letter.isalpha() else 0 for letter in sentence]
    row = (tokens.split(), of_sentence, list(map(int, unit)))
    longer = (["the"] * 9, [0] * 9, list(range(9)))
    assert words.of_units([row])[0].tolist() == ids
    assert words.of_units([longer, row])[1].tolist() == ids + [NO_WORD] * (9 - len(ids))


def test_words_that_were_added_count_and_special_tokens_do_not() -> None:
    tokenizer = KINDS["wordpiece"]()
    tokenizer.add_tokens(["zebra"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["speaker"]})
    words, zebra = whole_words(tokenizer), tokenizer.convert_tokens_to_ids("zebra")
    assert words.ids["zebra"] == zebra and "speaker" not in words.ids
    encoded = encode_pair(tokenizer, Pair("the zebra"), "token", 100, truncate=False)
    assert words.of_units([(encoded.tokens, encoded.sentence, encoded.unit)])[0].tolist()[2] == zebra


def test_scripts_with_vowel_signs_and_without_case() -> None:
    texts = ["में", "है", "дом", "के", "日", "日本", "में2", "ाल"]
    assert set(WholeWords.of(dict(enumerate(texts))).ids) == {"में", "है", "дом", "के", "日本"}


def test_the_most_frequent_words_have_the_lowest_ids_unless_these_are_alphabetical() -> None:
    names = [f"{'qwertzuiop'[i % 10]}{'asdfg'[i // 10 % 5]}{'yxcvb'[i // 50]}" for i in range(200)]
    texts = {30 + i: name for i, name in enumerate(names)} | {5: "##s", 6: "7", 7: "k"}
    assert WholeWords.of(texts).frequent == set(range(30, 130))
    assert WholeWords.of(dict(enumerate(sorted(names)))).frequent == frozenset()
