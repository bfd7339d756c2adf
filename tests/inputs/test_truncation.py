"""A long input has the tokens that its tokenizer gives with `truncation=True`, for any text."""

from functools import cache
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support import tokenizers_of_kinds as kinds
from support.hypothesis_draws import draws

from attnscan.errors import InputError, TooLongError
from attnscan.inputs.encode import encode_pairs
from attnscan.inputs.sentence import EncodedInput, Pair

FAST = {
    "WordPiece": kinds.wordpiece,
    "whole words": kinds.whole_words,
    "words at spaces": kinds.words_at_spaces,
    "byte-level": kinds.byte_level,
    "byte-level, no delimiters": kinds.without_delimiters,
    "byte-level, prefix space": kinds.prefix_space,
    "byte-level, unknown prefix space": lambda: kinds.prefix_space(knows=False),
    "end of word": kinds.end_of_word,
    "unigram": kinds.unigram,
    "unigram, ending": kinds.ending,
    "unigram, beginning": kinds.beginning_alone,
    "unigram, NFKC": kinds.compatible_characters,
    "characters": kinds.characters,
}
PYTHON = "written in Python"

PIECES = st.one_of(
    st.sampled_from(["the cat sat", "strawberries", "A mat .", "it's", "the", "cat", "a", "</s>"]),
    st.sampled_from(
        ["e\u0301\u0323\u0302", "ﬁ½", "👩\u200d👩\u200d👧", "我爱猫", "\u200b\xad", "İ"]
    ),
    st.integers(1, 200).map(lambda n: " " * n),
    st.integers(1, 200).map(lambda n: "\n" * n),
    st.integers(1, 120).map(lambda n: "straw" * n),
    st.integers(1, 60).map(lambda n: "the cat " * n),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
)
TEXTS = st.lists(PIECES, min_size=1, max_size=8).map("".join).filter(str.strip)


@cache
def tokenizer_of(kind: str, side: str) -> Any:
    tokenizer = FAST[kind]()
    tokenizer.truncation_side = side
    return tokenizer


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return kinds.written_in_python(tmp_path_factory.mktemp("python"))


def check(tokenizer: Any, a: str, b: str | None, limit: int) -> None:
    """Compare an input that is cut with what the tokenizer makes of it."""
    expected = tokenizer(a, b, truncation=True, max_length=limit, verbose=False)
    (encoded,) = encode_pairs(tokenizer, [Pair(a, b)], "token", limit, truncate=True)
    if isinstance(encoded, InputError):
        assert "finds no word in sentence" in encoded.what
        return
    assert encoded.model_inputs == {name: list(expected[name]) for name in expected}
    assert encoded.truncated == (len(tokenizer(a, b, verbose=False)["input_ids"]) > limit)
    if tokenizer.is_fast:
        check_spans(encoded, expected.encodings[0].offsets)


def check_spans(encoded: EncodedInput, offsets: list[tuple[int, int]]) -> None:
    """Characters of tokens are those that the tokenizer tells, unless these are white space."""
    for span, offset, side in zip(encoded.spans, offsets, encoded.sentence, strict=True):
        if side >= 0 and encoded.known_pair.texts[side][slice(*offset)].strip():
            assert span == offset


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", FAST)
@settings(deadline=None, max_examples=draws(15))
@given(a=TEXTS, b=st.none() | TEXTS, limit=st.integers(7, 24))
@example(a=" " * 400 + "the cat sat " * 30, b=None, limit=8)
@example(a="the" + " " * 400 + "cat sat " * 30, b=None, limit=8)
@example(a="the cat sat " * 90, b="a mat . " * 90, limit=9)
@example(a="straw" * 300, b="the cat " * 2, limit=9)
@example(a="straw" * 60 + "the cat sat", b="straw" * 61, limit=8)  # A's first word is shorter
def test_cut_input_has_the_tokens_of_its_tokenizer(
    kind: str, side: str, a: str, b: str | None, limit: int
) -> None:
    check(tokenizer_of(kind, side), a, b, limit)


@pytest.mark.parametrize("side", ["right", "left"])
@settings(deadline=None, max_examples=draws(15))
@given(a=TEXTS, b=st.none() | TEXTS, limit=st.integers(7, 24))
def test_tokenizer_in_python_cuts_for_itself(
    python: Any, side: str, a: str, b: str | None, limit: int
) -> None:
    assume("</s>" not in f"{a} {b}")
    python.truncation_side = side
    check(python, a, b, limit)


def test_two_long_texts_are_cut_without_all_pairs_of_pieces() -> None:
    """The tokenizer by itself takes gigabytes."""
    for side in ("right", "left"):
        tokenizer = tokenizer_of("unigram", side)
        pair = Pair("the cat sat " * 30_000, "a mat . " * 30_000)
        (encoded,) = encode_pairs(tokenizer, [pair], "token", 16, truncate=True)
        assert isinstance(encoded, EncodedInput)
        assert len(encoded.tokens) == 16
        spans = [span for span, s in zip(encoded.spans, encoded.sentence, strict=True) if s == 0]
        assert (spans[0][0] == 0) == (side == "right")
        assert (spans[-1][1] >= len(pair.a.rstrip())) == (side == "left")


class TestHugeTexts:
    HUGE = "the cat sat on the mat . " * 600_000

    def test_read_up_to_a_space_where_that_is_the_same(self) -> None:
        tokenizer = tokenizer_of("WordPiece", "right")
        pair = Pair(self.HUGE, "a cat")
        (encoded,) = encode_pairs(tokenizer, [pair], "token", 20, truncate=True)
        expected = tokenizer(self.HUGE[:1000], "a cat", truncation=True, max_length=20)
        assert isinstance(encoded, EncodedInput)
        assert encoded.model_inputs["input_ids"] == expected["input_ids"]

    @pytest.mark.parametrize(
        ("kind", "side"),
        [
            ("unigram", "right"),
            ("WordPiece", "left"),
            ("words at spaces", "right"),  # one of whose tokens spans a space
        ],
    )
    def test_refused_where_all_would_be_read(self, kind: str, side: str) -> None:
        tokenizer = tokenizer_of(kind, side)
        (error,) = encode_pairs(tokenizer, [Pair("a", self.HUGE)], "token", 20, truncate=True)
        assert isinstance(error, TooLongError)
        assert error.what.startswith("sentence B has 15,000,000 characters, and at most 10,000,000")

    def test_too_long_without_counting_all_tokens(self) -> None:
        tokenizer = tokenizer_of("WordPiece", "right")
        (error,) = encode_pairs(tokenizer, [Pair(self.HUGE)], "token", 20, truncate=False)
        assert isinstance(error, TooLongError) and "more than 20 tokens long" in error.what

    def test_one_does_not_cost_its_neighbours(self) -> None:
        tokenizer = tokenizer_of("unigram", "right")
        pairs = [Pair("the cat"), Pair(self.HUGE), Pair("a mat")]
        first, error, last = encode_pairs(tokenizer, pairs, "token", 20, truncate=True)
        assert isinstance(first, EncodedInput) and isinstance(last, EncodedInput)
        assert isinstance(error, TooLongError)
