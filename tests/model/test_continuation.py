"""A decoder writes sentence B behind A: its own tokens, greedily, marked as sentence B."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.tokenizers_of_kinds import encode_pair
from support.toy_decoder import POSITIONS, save_induction_gpt2
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationMixin

import attnscan
from attnscan.errors import AttnscanError, InputError, ModelError
from attnscan.inputs.read import random_pairs
from attnscan.inputs.sentence import NO_WORD, SPECIAL, EncodedInput, Pair, Unit
from attnscan.model.continuation import write_continuation
from attnscan.model.loading import LoadedModel, load
from attnscan.model.sources import choose

WRITTEN = 5


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_induction_gpt2(tmp_path_factory.mktemp("decoder")))


@pytest.fixture(scope="module")
def text() -> str:
    """Six words, and the first three of them again: the model goes on with the fourth."""
    words = str(next(iter(random_pairs())).pair.a).split()[:6]
    return " ".join(words + words[:3])


@pytest.fixture(scope="module")
def result(decoder: str, text: str) -> Any:
    return attnscan.classify(text, model=decoder, write=WRITTEN, predictive="off")


def greedy(decoder: str, text: str) -> list[int]:
    """The ids of the text and of what follows, one forward a token, by transformers alone."""
    model = AutoModelForCausalLM.from_pretrained(decoder).eval()
    ids = AutoTokenizer.from_pretrained(decoder)(text)["input_ids"]
    with torch.inference_mode():
        for _ in range(WRITTEN):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids


def test_b_is_what_the_model_writes(result: Any, decoder: str, text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(decoder)
    ids = greedy(decoder, text)
    assert list(result.units) == tokenizer.convert_ids_to_tokens(ids)
    n_read = len(ids) - WRITTEN
    assert result.sentence == (0,) * n_read + (1,) * WRITTEN


def test_weights_are_those_of_one_run_over_all_tokens(result: Any, decoder: str, text: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(decoder, attn_implementation="eager").eval()
    with torch.inference_mode():
        output = model(torch.tensor([greedy(decoder, text)]), output_attentions=True)
    expected = torch.cat(output.attentions).numpy()
    np.testing.assert_allclose(result.kept_attention().weights, expected, atol=1e-6)


def test_words_of_what_is_written_are_merged(decoder: str, text: str) -> None:
    merged = attnscan.classify(text, model=decoder, write=2, unit="word", predictive="off")
    assert merged.sentence[-2:] == (1, 1) and len(merged.units) == len(text.split()) + 2


def test_a_result_says_that_b_was_written(result: Any) -> None:
    assert f"sentence B was written by the model: {WRITTEN} tokens" in result.notes


def test_b_cannot_be_given_too(decoder: str, text: str) -> None:
    with pytest.raises(InputError, match="sentence B is given"):
        attnscan.classify(text, text, model=decoder, write=2)


def test_an_encoder_does_not_write() -> None:
    with pytest.raises(ModelError, match="bundled does not write"):
        attnscan.classify("I went.", model="bundled", write=2)


@pytest.mark.parametrize("function", [attnscan.show, attnscan.report])
def test_show_and_report_take_it(function: Any, decoder: str, text: str) -> None:
    arguments: tuple[str, ...] = (text,) if function is attnscan.report else ("1-0", text)
    made = function(*arguments, model=decoder, write=WRITTEN)
    if function is attnscan.report:
        assert "sentence B was written by the model" in made.html
    else:
        assert len(made.result.units) == len(text.split()) + WRITTEN


class TestWhatIsWritten:
    """What `generate` returns, as an input."""

    @pytest.fixture(scope="class")
    def loaded(self, decoder: str) -> LoadedModel:
        return load(choose(decoder))

    @pytest.fixture
    def writes(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
        """Lets every model write these ids; remembers how it was asked."""
        asked: dict[str, Any] = {}

        def set_written(*ids: int) -> dict[str, Any]:
            def generate(_: Any, **options: Any) -> torch.Tensor:
                asked.update(options)
                return torch.cat([options["input_ids"], torch.tensor([ids])], 1)

            monkeypatch.setattr(GenerationMixin, "generate", generate)
            return asked

        return set_written

    def encoded(self, loaded: LoadedModel, text: str, unit: Unit = "token") -> EncodedInput:
        return encode_pair(loaded.tokenizer, Pair(text), unit, loaded.limit, truncate=True)

    def test_special_tokens_at_the_end_are_left_out(
        self, loaded: LoadedModel, writes: Any, text: str
    ) -> None:
        """Here the unknown and the padding token are special; number 5 is a word."""
        writes(5, 1, 5, 1, 0)
        n_read = len(text.split())
        encoded = self.encoded(loaded, text)
        encoded.model_inputs["token_type_ids"] = [*[0] * (n_read - 1), 2]
        result = write_continuation(loaded, encoded, 5)
        assert result.sentence[n_read:] == (1, SPECIAL, 1)
        assert result.model_inputs["input_ids"][n_read:] == [5, 1, 5]
        assert result.model_inputs["attention_mask"] == [1] * (n_read + 3)
        assert result.model_inputs["token_type_ids"][n_read:] == [2, 2, 2]
        assert result.unit == tuple(range(n_read + 3))
        assert result.known_pair.a == text

    def test_special_tokens_alone_are_nothing(
        self, loaded: LoadedModel, writes: Any, text: str
    ) -> None:
        writes(1, 0)
        with pytest.raises(InputError, match="the model writes nothing behind sentence A"):
            write_continuation(loaded, self.encoded(loaded, text), 5)

    @pytest.mark.parametrize(
        ("words", "most", "asked"), [(9, 5, 5), (60, 5, 4), (63, 5, 1), (63, 1, 1)]
    )
    def test_no_more_is_written_than_there_is_room(
        self, loaded: LoadedModel, writes: Any, words: int, most: int, asked: int
    ) -> None:
        options = writes(5)
        write_continuation(loaded, self.encoded(loaded, " ".join(["a"] * words)), most)
        assert options["max_new_tokens"] == asked
        assert (options["num_beams"], options["do_sample"]) == (1, False)

    @pytest.mark.parametrize("words", [POSITIONS, POSITIONS + 1])
    def test_without_room_nothing_is_written(self, loaded: LoadedModel, words: int) -> None:
        encoded = self.encoded(loaded, " ".join(["a"] * words))
        with pytest.raises(InputError, match="sentence A fills the model's 64 tokens"):
            write_continuation(loaded, encoded, 5)

    def test_merged_words_go_on_counting(self, loaded: LoadedModel, writes: Any, text: str) -> None:
        writes(5, 6)
        words = self.encoded(loaded, text, "word")
        merged = replace(words, unit=(0, *words.unit[:-1]))  # the first two tokens are a word
        result = write_continuation(loaded, merged, 2)
        assert result.unit == (*merged.unit, merged.unit[-1] + 1, merged.unit[-1] + 2)
        assert len(result.units) == result.unit[-1] + 1

    def test_given_words_are_of_what_was_read(
        self, loaded: LoadedModel, writes: Any, text: str
    ) -> None:
        writes(5, 6)
        encoded = self.encoded(loaded, text)
        numbers = tuple(range(len(encoded.tokens)))
        result = write_continuation(loaded, replace(encoded, words=numbers), 2)
        assert result.words == (*numbers, NO_WORD, NO_WORD)
        assert write_continuation(loaded, encoded, 2).words == ()


def test_many_pairs_do_not_take_it(decoder: str) -> None:
    with pytest.raises((AttnscanError, TypeError), match="write"):
        attnscan.heads(["a b"], model=decoder, write=2)  # type: ignore[call-overload]
