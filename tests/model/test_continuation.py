"""A decoder writes sentence B behind A: its own tokens, greedily, marked as sentence B."""

from typing import Any

import numpy as np
import pytest
import torch
from support.toy_decoder import save_induction_gpt2
from transformers import AutoModelForCausalLM, AutoTokenizer

import attnscan
from attnscan.errors import AttnscanError, InputError, ModelError
from attnscan.inputs.read import random_pairs

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


def test_many_pairs_do_not_take_it(decoder: str) -> None:
    with pytest.raises((AttnscanError, TypeError), match="write"):
        attnscan.heads(["a b"], model=decoder, write=2)  # type: ignore[call-overload]
