"""Words, pieces, special tokens and punctuation of each kind of tokenizer; given words; names."""

import itertools
import re
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.handwritten_inputs import input_of
from support.hypothesis_draws import draws
from support.tokenizers_of_kinds import (
    KINDS,
    encode_pair,
    marian,
    prefix_space,
    written_in_python,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from attnscan.errors import InputError, SelectionError, TooLongError
from attnscan.inputs.annotations import link_words
from attnscan.inputs.batch import batches, collate
from attnscan.inputs.encode import encode_pairs, notes_of
from attnscan.inputs.sentence import NO_WORD, SPECIAL, EncodedInput, Pair, Sentence, Unit
from attnscan.inputs.spelling import bare, token_named
from attnscan.inputs.vocabulary import WholeWords, whole_words
from attnscan.model.writing import encode_translations

NO_LIMIT = 10**6
A = "The cat sat on the mat."
B = "a cat, and the strawberries!"


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]()


def _encoded(
    tokenizer: Any, a: str | Sentence, b: str | Sentence | None = None, unit: Unit = "token"
) -> EncodedInput:
    return encode_pair(tokenizer, Pair(a, b), unit, NO_LIMIT, truncate=False)


def _words(encoded: EncodedInput, sentence: int) -> list[str]:
    return [
        text.strip(" ▁Ġ").casefold()
        for text, s in zip(encoded.units, encoded.unit_sentence, strict=True)
        if s == sentence
    ]


def test_words_are_whole_and_in_their_sentence(tokenizer: Any) -> None:
    encoded = _encoded(tokenizer, A, B, "word")
    assert _words(encoded, 0) == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert _words(encoded, 1) == ["a", "cat", ",", "and", "the", "strawberries", "!"]
    marks = collate([encoded]).punctuation[0].tolist()
    assert [t.strip(" ▁Ġ") for t, mark in zip(encoded.units, marks, strict=True) if mark] == [
        ".",
        ",",
        "!",
    ]


@settings(deadline=None, max_examples=draws(150))
@given(text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    """Tokens that share a character share a word."""
    for tokenizer in (bytes_alone(), *map(_cached, KINDS.values())):
        try:
            read = _encoded(tokenizer, text, "the cat", "word")
        except InputError as error:
            assert "\n" not in str(error) and "\x1b" not in str(error)
            continue
        assert (
            len(read.tokens)
            == len(read.sentence)
            == len(read.unit)
            == len(read.punctuation)
            == len(read.spans)
        )
        assert len(read.units) == len(read.unit_sentence) == read.unit[-1] + 1
        words = [sentence for sentence in read.sentence if sentence != SPECIAL]
        assert words == sorted(words) and set(words) == {0, 1}
        for i, j in pairwise(
            place for place, sentence in enumerate(read.sentence) if sentence == 0
        ):
            first, end = read.spans[i]
            start, last = read.spans[j]
            assert read.unit[i] == read.unit[j] or end <= start or last <= first


@cache
def bytes_alone() -> PreTrainedTokenizerFast:
    """Byte-level BPE without a merge: a token is a byte, and each has all of its character."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE({piece: i for i, piece in enumerate(["[UNK]", *alphabet])}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", model_input_names=["input_ids"]
    )


@cache
def _cached(make: Any) -> Any:
    return make()


def test_segments_are_for_people_and_include_the_closing_delimiter() -> None:
    assert _encoded(KINDS["wordpiece"](), "the cat", "a").segments == (0, 0, 0, 0, 1, 1)
    assert _encoded(KINDS["byte-level"](), "the cat", "a").segments == (0, 0, 0, 0, 1, 1, 1)
    assert _encoded(KINDS["unigram"](), "cat", "cat").segments == (0, 0, 1, 1, 1)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("a [SEP] b [SEP]", (0, 0, 1, 1)),  # nothing opens the first sentence
        ("[CLS] a b", (0, 0, 0)),
        ("[CLS] a [SEP] [SEP] b", (0, 0, 0, 1, 1)),
        ("[CLS] [SEP]", (0, 0)),
    ],
)
def test_a_delimiter_opens_what_follows_or_closes_what_was(
    text: str, segments: tuple[int, ...]
) -> None:
    assert input_of(text).segments == segments


def test_a_target_and_its_start_token_are_the_second_segment() -> None:
    read = replace(input_of("<s> </s> le chat"), sentence=(SPECIAL, SPECIAL, 1, 1))
    assert read.segments == (1, 1, 1, 1)
    assert replace(read, source=3).segments == (0, 0, 0, 1)


class TestCharacters:
    """Which units of a sentence have some of its characters."""

    ENCODED = replace(
        input_of("[CLS] the cat [SEP] a [SEP]"),
        spans=((0, 0), (0, 3), (4, 7), (0, 0), (0, 1), (0, 0)),
    )

    @pytest.mark.parametrize(
        ("sentence", "start", "end", "units"),
        [
            (0, 0, 7, [1, 2]),
            (0, 2, 5, [1, 2]),
            (0, 3, 4, []),  # the space
            (0, 4, 5, [2]),
            (0, 0, 3, [1]),
            (1, 0, 1, [4]),
        ],
    )
    def test_units_share_a_character(
        self, sentence: int, start: int, end: int, units: list[int]
    ) -> None:
        assert self.ENCODED.units_between(sentence, start, end) == units

    def test_without_offsets_they_are_unknown(self) -> None:
        with pytest.raises(InputError, match="the characters of tokens are unknown"):
            input_of("the cat").units_between(0, 0, 3)


class TestTags:
    PAIR = Pair(Sentence("a", [(0, 1)], {"upos": ["DET"], "head": [0]}), Sentence("b"))

    def test_a_tag_is_of_both_sentences(self) -> None:
        encoded = replace(input_of("[CLS] a [SEP] b"), pair=self.PAIR, number=7)
        with pytest.raises(InputError, match="sentence B of pair 7 has no tag 'upos'; give Sent"):
            encoded.tags("upos")

    def test_the_tags_that_there_are_are_said(self) -> None:
        encoded = replace(input_of("[CLS] a [SEP] b"), pair=self.PAIR)
        with pytest.raises(InputError, match="sentence A has no tag 'x'; its tags are upos, head"):
            encoded.tags("x")
        with pytest.raises(InputError, match="has no tag 'upo'; did you mean 'upos'"):
            encoded.tags("upo")


class TestHiding:
    """Some tokens are hidden behind the mask token."""

    ENCODED = replace(
        input_of("[CLS] the straw ##berries . [SEP]", "word"),
        model_inputs={"input_ids": [*"abcdef"]},
    )

    def test_the_mask_takes_their_places(self) -> None:
        hidden = self.ENCODED.hiding([3, 4], 9, "[MASK]")
        assert hidden.tokens == ("[CLS]", "the", "straw", "[MASK]", "[MASK]", "[SEP]")
        assert hidden.model_inputs["input_ids"] == ["a", "b", "c", 9, 9, "f"]
        assert hidden.units == ("[CLS]", "the", "straw[MASK]", "[MASK]", "[SEP]")
        assert hidden.punctuation[4] is False
        assert self.ENCODED.tokens[3] == "##berries"

    @pytest.mark.parametrize("place", [0, 5, 6, -2])
    def test_only_words_can_be_hidden(self, place: int) -> None:
        with pytest.raises(InputError, match=f"there is no word at token {place} that could be"):
            self.ENCODED.hiding([1, place], 9, "[MASK]")


def test_an_input_that_just_fits_is_not_too_long(tokenizer: Any) -> None:
    length = len(_encoded(tokenizer, A, B).tokens)
    assert not encode_pair(tokenizer, Pair(A, B), "token", length, truncate=True).truncated
    assert encode_pair(tokenizer, Pair(A, B), "token", length - 1, truncate=True).truncated
    too_long = rf"{length} tokens long .* at most {length - 1}; .*on_long='truncate'"
    with pytest.raises(TooLongError, match=too_long):
        encode_pair(tokenizer, Pair(A, B), "token", length - 1, truncate=False)


def test_far_too_long_sentences_are_cut_as_the_tokenizer_cuts_them(tokenizer: Any) -> None:
    for pair in (
        Pair("the cat sat on the mat. " * 20),
        Pair("a dog " * 30, "the cat, " * 90),
        Pair("cat", A * 9),
    ):
        expected = tokenizer(
            pair.a, pair.b, truncation="longest_first", max_length=12, verbose=False
        )
        cut = encode_pair(tokenizer, pair, "word", 12, truncate=True)
        assert cut.truncated and cut.model_inputs["input_ids"] == expected["input_ids"]
    long = encode_pair(tokenizer, Pair("a b " * 25_000, "c " * 50_000), "token", 12, truncate=True)
    assert long.truncated and len(long.tokens) == 12


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I love 😂 it", ["I", "love", "😂", "it"]),
        ("我，你", ["我", "，", "你"]),
        ("naïve ☃.", ["naïve", "☃", "."]),
        ("a 👩‍👩‍👧 b", ["a", "👩‍👩‍👧", "b"]),
    ],
)
def test_one_character_is_never_several_words(text: str, words: list[str]) -> None:
    tokenizer = bytes_alone()
    encoded = _encoded(tokenizer, text, unit="word")
    assert [unit.strip() for unit in encoded.units] == words
    assert "".join(encoded.units) == text and len(encoded.tokens) > len(words)
    annotated = _encoded(tokenizer, Sentence(text, [(0, 1)]), unit="word")
    shared = [(a, b) for a, b in zip(annotated.unit, annotated.unit[1:], strict=False) if a != b]
    assert len(shared) + 1 == len(annotated.units) and "".join(annotated.units) == text


def test_what_is_told_of_inputs() -> None:
    wordpiece = KINDS["wordpiece"]()
    byte_level = bytes_alone()
    typed = [_encoded(wordpiece, "the [SEP] cat"), _encoded(wordpiece, "a [MASK] [SEP]")]
    note = "special tokens to the model, and words to attnscan: [SEP], [MASK] in the text"
    assert notes_of(wordpiece, typed) == [note]
    run = _encoded(byte_level, "我爱猫 cat", unit="word")
    advice = "put spaces between words and pass --words spaces"
    note = f"one word, since no space divides it: 我爱猫 ({advice})"
    assert notes_of(byte_level, [run, run]) == [note]
    spaced = encode_pair(byte_level, Pair("我爱 猫").by_spaces, "word", NO_LIMIT, truncate=False)
    assert notes_of(byte_level, [_encoded(byte_level, "我爱猫"), spaced]) == []
    assert (
        notes_of(
            wordpiece,
            [_encoded(wordpiece, A, B, "word"), _encoded(wordpiece, "我爱猫", unit="word")],
        )
        == []
    )


def test_words_between_spaces(tokenizer: Any) -> None:
    pair = Pair("the cat's mat.", "a, cat").by_spaces
    read = encode_pair(tokenizer, pair, "word", NO_LIMIT, truncate=False)
    words = [
        text for text, sentence in zip(read.units, read.unit_sentence, strict=True) if sentence >= 0
    ]
    assert words == ["the", "cat's", "mat.", "a,", "cat"]
    sentence = Sentence("the cat", [(0, 7)])
    assert Pair(sentence).by_spaces == Pair(sentence)


MANY = [
    Pair("the cat sat on the mat.", "a dog, a CAT"),
    Pair("The strawberries"),
    Pair(". !", "naïve café ☃"),
    Pair("\u200b", "the"),  # no token
    Pair("the cat " * 60),  # too long, or cut
    Pair("a b " * 20_000, "the"),  # far too long
    Pair("a cat", "\u200b"),
    Pair("a b c d e f", "g h i"),
]


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "written in Python"])
def test_many_inputs_are_encoded_as_each_by_itself(
    kind: str, truncate: bool, tmp_path: Path
) -> None:
    tokenizer = written_in_python(tmp_path) if kind == "written in Python" else KINDS[kind]()
    together = [comparable(each) for each in encode_pairs(tokenizer, MANY, "word", 30, truncate)]
    alone = []
    for pair in MANY:
        alone += map(comparable, encode_pairs(tokenizer, [pair], "word", 30, truncate))
    assert together == alone and isinstance(together[0], EncodedInput)
    assert truncate or isinstance(together[5], str)


def comparable(read: EncodedInput | InputError) -> EncodedInput | str:
    """An input, or the text of an error."""
    return f"{type(read).__name__} {read}" if isinstance(read, InputError) else read


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer without `sequence_ids`."""
    return written_in_python(tmp_path_factory.mktemp("python"))


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ("the cat sat", "a dog", [-1, 0, 0, 0, -1, -1, 1, 1, -1]),
        ("the cat", None, [-1, 0, 0, -1]),
        (
            "the x </s>",
            "a",
            [-1, 0, 0, 0, -1, -1, 1, -1],
        ),  # an unknown word, and a delimiter that is typed
        ("cat", "cat", [-1, 0, -1, -1, 1, -1]),
    ],
)
def test_a_tokenizer_written_in_python_finds_its_sentences(
    python: Any, a: str, b: str | None, sentence: list[int]
) -> None:
    assert not python("the").is_fast
    encoded = _encoded(python, a, b)
    assert encoded.sentence == tuple(sentence)
    assert set(encoded.model_inputs) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("limit", [6, 7, 8, 9, 10])
def test_a_tokenizer_written_in_python_finds_sentences_that_it_cut(python: Any, limit: int) -> None:
    pair = Pair("the cat sat mat", "a dog and .")
    (read,) = encode_pairs(python, [pair], "token", limit, True)
    assert isinstance(read, EncodedInput) and read.truncated and len(read.tokens) == limit
    own = dict.fromkeys(pair.texts[0].split(), 0) | dict.fromkeys(pair.texts[1].split(), 1)
    assert read.sentence == tuple(own.get(token, -1) for token in read.tokens)


@pytest.mark.parametrize(
    ("tokens", "units"),
    [
        ("[CLS] straw ##berries ##s . [SEP]", ["[CLS]", "strawberriess", ".", "[SEP]"]),
        (
            "<s> straw berries Ġand Ġcat s . </s>",
            ["<s>", "strawberries", "Ġand", "Ġcats", ".", "</s>"],
        ),
        ("▁straw berries . ▁a </s>", ["▁strawberries", ".", "▁a", "</s>"]),
        ("[CLS] a ## b [SEP]", ["[CLS]", "a", "##", "b", "[SEP]"]),
        ("<s> straw@@ berries and @@ a </s>", ["<s>", "strawberries", "and", "@@", "a", "</s>"]),
        (
            "<s> straw berries</w> and</w> .</w> </s>",
            ["<s>", "strawberries</w>", "and</w>", ".</w>", "</s>"],
        ),
    ],
)
def test_words_of_saved_weights_are_told_by_their_spelling(tokens: str, units: list[str]) -> None:
    assert list(input_of(tokens, "word").units) == units


def annotated(text: str, pattern: str = r"\w+|[^\w\s]") -> Sentence:
    """Its words by a regular expression, each tagged with its own text and its number."""
    matches = list(re.finditer(pattern, text))
    spans = [match.span() for match in matches]
    return Sentence(
        text, spans, {"form": [match[0] for match in matches], "number": range(len(matches))}
    )


encoded = partial(_encoded, unit="word")


def test_given_words_are_the_units(tokenizer: Any) -> None:
    """Other words than the tokenizer would make: "sat on" is one, and "strawberries" are two."""
    a = annotated(A, r"sat on|\w+|\.")
    b = annotated(B, "straw|berries|[a-z]+|[,!]")
    read = encoded(tokenizer, a, b)
    of_words = [
        (unit, s) for unit, s in zip(read.units, read.unit_sentence, strict=True) if s != SPECIAL
    ]
    assert of_words[:6] == [(form, 0) for form in ("The", "cat", "sat on", "the", "mat", ".")]
    assert [bare(unit) for unit, s in of_words if s == 1 and unit not in ("straw", "berries")][
        :5
    ] == [*("a", "cat", ",", "and", "the")]
    batch = collate([read])
    forms = [
        form for form, s in zip(batch.tags("form")[0], read.unit_sentence, strict=True) if s == 0
    ]
    assert forms == [unit for unit, s in of_words if s == 0]
    numbers = [
        number
        for number, s in zip(batch.word_number[0].tolist(), read.unit_sentence, strict=True)
        if s == 0
    ]
    assert numbers == list(range(6))


class TestPrefixSpace:
    """A post-processor may not know that a space is put before the text."""

    @pytest.mark.parametrize("knows", [True, False])
    @pytest.mark.parametrize(
        "words",
        [["I", "saw", "a", "mat", "."], ["a", ",", "a", "b"], ["the", "cat"], ["é", "x"]],
    )
    def test_words_own_the_pieces_that_spell_them(self, knows: bool, words: list[str]) -> None:
        text = " ".join(words)
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        read = encoded(prefix_space(knows), Sentence(text, spans), Sentence(text, spans))
        pairs = list(zip(read.units, read.unit_sentence, strict=True))
        for side in (0, 1):
            assert [unit for unit, s in pairs if s == side] == words


class TestWithoutOffsets:
    """A tokenizer written in Python does not tell which characters its tokens stand for."""

    def test_words_are_those_between_spaces(self, tmp_path: Path) -> None:
        tokenizer = written_in_python(tmp_path)
        words = [(0, 3), (4, 16), (18, 21), (22, 25), (26, 27)]
        tokens = _encoded(tokenizer, Sentence("the strawberries  sat mat .", words))
        assert tokens.tokens == ("<s>", "the", "straw@@", "berries", "sat", "mat", ".", "</s>")
        assert tokens.words == (NO_WORD, 0, 1, 1, 2, 3, 4, NO_WORD)
        berries = (4, 16)
        spans = ((0, 3), berries, berries, (18, 21), (22, 25), (26, 27))
        assert tokens.spans == ((0, 0), *spans, (0, 0))
        merged = _encoded(
            tokenizer, Sentence("the zebra sat", [(4, 13)]), Sentence("a cat", [(2, 5)]), "word"
        )
        assert merged.units == ("<s>", "the", "zebra sat", "</s>", "</s>", "a", "cat", "</s>")

    def test_words_within_spaces_cannot_be_told(self, tmp_path: Path) -> None:
        two = Sentence("the zeb-ra", [(0, 3), (4, 7), (7, 10)])
        with pytest.raises(
            InputError, match=r"PhobertTokenizer gives no character offsets .* leave the words out"
        ):
            _encoded(written_in_python(tmp_path), two)

    def test_marian_cuts_sources_and_targets_by_models_of_their_own(self, tmp_path: Path) -> None:
        tokenizer = marian(tmp_path)
        pair = link_words(Pair("the cat's mat , § .", "the dog sat on it"), "0-0 1-1 5-4")
        shift = lambda ids: [0, *ids[:-1]]  # noqa: E731
        for query in ("predicts", "reads"):
            (tokens,) = encode_translations(tokenizer, [pair], "word", 60, False, shift, query)
            assert not isinstance(tokens, InputError)
            assert tokens.units[:7] == ("the", "cat's", "mat", ",", "§", ".", "</s>")
            words = [
                unit
                for unit, word in zip(tokens.units[7:], tokens.unit_words[7:], strict=True)
                if word != NO_WORD
            ]
            assert words == ["the", "dog", "sat", "on", "it"]


ODD = [KeyError("x"), RecursionError(), UnicodeError("\x1b[2J"), ImportError("no protobuf\nhere")]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_whatever_a_tokenizer_raises_is_one_line(error: Exception) -> None:
    """Of a tokenizer written in Python."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    raising = type("Raising", (), {"is_fast": False, "__call__": fail})()
    with pytest.raises(InputError) as caught:
        encode_pair(raising, Pair("the"), "token", 9, False)
    assert "the tokenizer Raising" in str(caught.value) and caught.value.remedy
    assert len(str(caught.value).splitlines()) == 1 and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "reason"), [("x" * 300, "x" * 200), (" ", "no reason given"), ("a\nb", "a")]
)
def test_what_a_tokenizer_says_is_a_line_of_200_characters(said: str, reason: str) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise ValueError(said)

    raising = type("Raising", (), {"is_fast": False, "__call__": fail})()
    with pytest.raises(InputError) as caught:
        encode_pair(raising, Pair("the"), "token", 9, False)
    what = "the tokenizer Raising fails on this input: ValueError:"
    assert caught.value.what == f"{what} {reason}"


def test_of_a_text_without_a_word_forty_characters_are_shown() -> None:
    with pytest.raises(InputError) as caught:
        _encoded(KINDS["wordpiece"](), "the", "\u200b" * 50)
    shown = repr("\u200b" * 40)
    assert caught.value.what == f"the tokenizer finds no word in sentence B ({shown})"


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120))
def test_batches_hold_every_input_once_and_no_more_than_they_may(
    lengths: list[int], tokens: int
) -> None:
    inputs = [EncodedInput(("w",) * n, (0,) * n, tuple(range(n)), (False,) * n) for n in lengths]
    made = list(batches(inputs, tokens))
    in_batches = itertools.chain.from_iterable(made)
    assert sorted(len(encoded.tokens) for encoded in in_batches) == sorted(lengths)
    for batch in made:
        assert batch
        longest = max(len(encoded.tokens) for encoded in batch)
        assert len(batch) == 1 or longest * len(batch) <= tokens


TOKENS = ["[CLS]", "the", "store", "ĠThe", "Ġstore", "#", "##s", "2"]


@pytest.mark.parametrize(
    ("text", "index"), [("store", 2), ("store#2", 4), ("4", 4), ("#", 5), ("##s", 6), ("2#1", 7)]
)
def test_a_token_is_named_by_its_text_or_its_place(text: str, index: int) -> None:
    assert token_named(text, TOKENS) == index


def test_no_such_token() -> None:
    hints = {"stor": "did you mean 'store'?"}
    hints |= dict.fromkeys(("xyz", "99"), "give a token's text, or an index from 0 to 7")
    for text in (*hints, "store#3", "store#0", ""):
        with pytest.raises(SelectionError) as error:
            token_named(text, TOKENS)
        assert str(error.value).startswith(
            f"the input has no token '{text}'; {hints.get(text, '')}"
        )


@pytest.mark.parametrize(
    ("mark", "tokens", "sentence", "unit", "ids"),
    [
        ("##", "cat ##s dog ## . the", "000000", "012345", [5, -1, 3, -1, -1, 0]),
        ("##", "[CLS] cat dog [SEP] the", "sAAsB", "01234", [-1, 5, 3, -1, 0]),
        ("##", "cat cat dog", "AAA", "001", [-1, 3]),  # a word of two tokens
        (
            "Ġ",
            "cat ▁cat cat ▁the dog",
            "AAAAB",
            "01234",
            [5, 5, -1, 0, 3],
        ),  # a sentence begins without the mark
        ("Ġ", ". cat", "AA", "01", [-1, 5]),  # and so does what follows punctuation
        ("@@", "rain@@ cat dog", "AAA", "012", [-1, -1, 3]),
        ("</w>", "cat cat</w> dog</w>", "AAA", "012", [-1, -1, 3]),
        ("", "cat dog ##s", "AAA", "012", [5, 3, -1]),
    ],
)
def test_words_by_their_marks_and_neighbours(
    mark: str, tokens: str, sentence: str, unit: str, ids: list[int]
) -> None:
    words = WholeWords({"cat": 5, "dog": 3, "the": 0}, mark)
    of_sentence = ["AB".find(letter) if letter.isalpha() else 0 for letter in sentence]
    row = (tokens.split(), of_sentence, list(map(int, unit)))
    longer = (["the"] * 9, [0] * 9, list(range(9)))
    assert words.word_ids([row])[0].tolist() == ids
    assert words.word_ids([longer, row])[1].tolist() == ids + [NO_WORD] * (9 - len(ids))


def test_words_that_were_added_count_and_special_tokens_do_not() -> None:
    tokenizer = KINDS["wordpiece"]()
    tokenizer.add_tokens(["zebra"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["speaker"]})
    words = whole_words(tokenizer)
    zebra = tokenizer.convert_tokens_to_ids("zebra")
    assert words.ids["zebra"] == zebra and "speaker" not in words.ids
    encoded = encode_pair(tokenizer, Pair("the zebra"), "token", 100, truncate=False)
    assert (
        words.word_ids([(encoded.tokens, encoded.sentence, encoded.unit)])[0].tolist()[2] == zebra
    )


def test_scripts_with_vowel_signs_and_without_case() -> None:
    texts = ["में", "है", "дом", "के", "日", "日本", "में2", "ाल"]
    assert set(WholeWords.from_tokens(dict(enumerate(texts))).ids) == {"में", "है", "дом", "के", "日本"}


def test_frequent_words_have_the_lowest_ids_unless_alphabetical() -> None:
    names = [f"{'qwertzuiop'[i % 10]}{'asdfg'[i // 10 % 5]}{'yxcvb'[i // 50]}" for i in range(200)]
    texts = {30 + i: name for i, name in enumerate(names)} | {5: "##s", 6: "7", 7: "k"}
    assert WholeWords.from_tokens(texts).frequent == set(range(30, 130))
    assert WholeWords.from_tokens(dict(enumerate(sorted(names)))).frequent == frozenset()


def test_words_that_differ_in_case_are_in_alphabetical_order_too() -> None:
    words = ["cat", "dog", "fish", "hen", "mouse", "newt"]
    names = itertools.chain.from_iterable((word.title(), word) for word in words)
    assert WholeWords.from_tokens(dict(enumerate(names))).frequent == frozenset()
