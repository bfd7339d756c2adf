"""Sources and targets of encoder-decoders: what is written, and what the decoder reads."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.tiny_checkpoints import refusal, tokenizer

from attnscan.errors import CaptureError, InputError, ModelError, TooLongError
from attnscan.inputs.sentence import SPECIAL, EncodedInput, Pair, QuerySide, Unit
from attnscan.model.writing import encode_translations, shift_right, write_target

START = 1
PAIR = Pair("the cat sat", "the mats")
SOURCE = ("[CLS]", "the", "cat", "sat", "[SEP]")
TARGET = ("[CLS]", "the", "mat", "##s", "[SEP]")


class Writer:
    """A model that writes always the same, and remembers how it was asked."""

    device = torch.device("cpu")

    def __init__(self, written: list[int] | Exception) -> None:
        self._written = written
        self.asked: dict[str, Any] = {}

    def generate(self, **options: Any) -> torch.Tensor:
        self.asked = options
        if isinstance(self._written, Exception):
            raise self._written
        return torch.tensor([self._written])


@pytest.mark.parametrize(
    ("most", "limit", "asked"), [(5, 32, 5), (30, 32, 30), (31, 32, 30), (0, 32, 1), (9, 2, 1)]
)
def test_a_target_is_no_longer_than_asked_and_the_limit(most: int, limit: int, asked: int) -> None:
    writer = Writer([2, 5, 6, 3])
    pair = write_target(writer, tokenizer(), Pair("the cat"), most, limit)
    assert isinstance(pair, Pair)
    assert pair.texts == ("the cat", "the cat")
    assert writer.asked["max_new_tokens"] == asked
    assert (writer.asked["num_beams"], writer.asked["do_sample"]) == (1, False)
    assert "decoder_input_ids" not in writer.asked


def test_a_source_is_cut_to_the_limit() -> None:
    writer = Writer([5])
    write_target(writer, tokenizer(), Pair("the cat sat on the mat"), 5, 4)
    assert writer.asked["input_ids"].tolist() == [[2, 5, 6, 3]]


def test_a_target_without_a_word_is_an_error_of_its_pair() -> None:
    error = write_target(Writer([2, 3]), tokenizer(), Pair("the cat"), 5, 32)
    assert isinstance(error, InputError)
    assert error.what == "the model writes no word as the target"


def test_a_model_that_fails_at_writing_is_one_line() -> None:
    writer = Writer(RuntimeError("no way\nat all"))
    line = refusal(lambda: write_target(writer, tokenizer(), Pair("the cat"), 5, 32), CaptureError)
    assert "Writer fails on this input: no way;" in line


def test_a_model_without_a_method_reads_behind_its_start_token() -> None:
    config = SimpleNamespace(decoder_start_token_id=7)
    assert shift_right(SimpleNamespace(config=config), [5, 6, 3]) == [7, 5, 6]


def _shift(ids: list[int]) -> list[int]:
    return [START, *ids[:-1]]


def _encode(
    pair: Pair = PAIR,
    query: QuerySide | None = "predicts",
    unit: Unit = "token",
    limit: int = 32,
    truncate: bool = False,
) -> EncodedInput | InputError:
    (encoded,) = encode_translations(tokenizer(), [pair], unit, limit, truncate, _shift, query)
    return encoded


def _encoded(**options: Any) -> EncodedInput:
    encoded = _encode(**options)
    assert isinstance(encoded, EncodedInput)
    return encoded


@pytest.mark.parametrize("query", ["predicts", "reads", None])
def test_the_decoder_reads_a_start_token_and_all_but_the_last(query: QuerySide | None) -> None:
    encoded = _encoded(query=query)
    ids = tokenizer()("the mats")["input_ids"]
    assert encoded.model_inputs["decoder_input_ids"] == [START, *ids[:-1]]
    assert encoded.model_inputs["decoder_attention_mask"] == [1] * 5
    assert encoded.model_inputs["input_ids"] == tokenizer()("the cat sat")["input_ids"]
    assert "token_type_ids" not in encoded.model_inputs
    assert encoded.pair == PAIR


@pytest.mark.parametrize(
    ("query", "tokens", "sides"),
    [
        ("predicts", TARGET, (SPECIAL, 1, 1, 1, SPECIAL)),
        ("reads", ("[UNK]", *TARGET[:-1]), (SPECIAL, SPECIAL, 1, 1, 1)),
    ],
)
def test_a_targets_tokens_stand_behind_the_sources(
    query: QuerySide, tokens: tuple[str, ...], sides: tuple[int, ...]
) -> None:
    encoded = _encoded(query=query)
    assert encoded.tokens == SOURCE + tokens
    assert encoded.sentence == (SPECIAL, 0, 0, 0, SPECIAL, *sides)
    assert encoded.unit == tuple(range(10))
    assert encoded.source == 5


def test_a_decoders_own_input_is_the_target_as_it_reads_it() -> None:
    encoded = _encoded(query=None)
    assert encoded.tokens == ("[UNK]", *TARGET[:-1])
    assert encoded.sentence == (SPECIAL, SPECIAL, 1, 1, 1)
    assert encoded.spans == ((0, 0), (0, 0), (0, 3), (4, 7), (7, 8))
    assert encoded.source == 0


@pytest.mark.parametrize(
    ("query", "units"),
    [
        ("predicts", ("[CLS]", "the", "mats", "[SEP]")),
        ("reads", ("[UNK]", "[CLS]", "the", "mats")),
    ],
)
def test_words_of_a_target_are_merged_behind_the_sources(
    query: QuerySide, units: tuple[str, ...]
) -> None:
    encoded = _encoded(query=query, unit="word")
    assert encoded.units == SOURCE + units
    assert encoded.unit_sentence[:5] == (SPECIAL, 0, 0, 0, SPECIAL)


def test_a_word_whose_last_piece_is_not_read_ends_before_it() -> None:
    """A tokenizer that closes no text: the decoder is not given the last piece."""
    words = tokenizer()
    words.backend_tokenizer.post_processor = None
    (encoded,) = encode_translations(words, [PAIR], "word", 32, False, _shift, "reads")
    assert isinstance(encoded, EncodedInput)
    assert encoded.tokens == ("the", "cat", "sat", "[UNK]", "the", "mat")
    assert encoded.units == ("the", "cat", "sat", "[UNK]", "the", "mats")


def test_what_is_read_otherwise_has_no_words() -> None:
    pairs = encode_translations(tokenizer(), [PAIR], "token", 32, False, lambda ids: ids, "reads")
    with pytest.raises(ModelError, match="not given the target's tokens one place later"):
        list(pairs)


@pytest.mark.parametrize("pair", [Pair("the cat sat", "the"), Pair("the", "the cat sat")])
def test_a_source_or_target_beyond_the_limit_is_too_long(pair: Pair) -> None:
    error = _encode(pair, limit=4)
    assert isinstance(error, TooLongError)
    assert error.what == "the input is 5 tokens long and the model reads at most 4"


@pytest.mark.parametrize(
    ("pair", "words"),
    [(Pair("\u200b", "the"), "sentence A"), (Pair("the", "\u200b"), "sentence B")],
)
def test_a_text_without_a_word_is_called_by_its_letter(pair: Pair, words: str) -> None:
    error = _encode(pair)
    assert isinstance(error, InputError)
    assert error.what.startswith(f"the tokenizer finds no word in {words} (")


@pytest.mark.parametrize(
    ("pair", "truncated"),
    [
        (Pair("the cat sat", "the"), True),
        (Pair("the", "the cat sat"), True),
        (Pair("the", "the"), False),
    ],
)
def test_a_pair_is_cut_where_either_text_is(pair: Pair, truncated: bool) -> None:
    assert _encoded(pair=pair, limit=4, truncate=True).truncated == truncated
