"""What a tokenizer raises is one line."""

from __future__ import annotations

from typing import Any

import pytest
from hostile.checkpoints import EXPLODES
from tokenizers import Regex, pre_tokenizers
from tokenizers_of_kinds import wordpiece

from attnscan.errors import InputError, ModelError
from attnscan.inputs.encode import called, check_reads_sentences, encode_pair, whole_words
from attnscan.inputs.sentence import Pair


def splitting(regex: str) -> Any:
    """A tokenizer with a regular expression of its own."""
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(regex), "isolated")
    return tokenizer


class Raising:
    """A tokenizer written in Python that fails at everything."""

    is_fast = False
    all_special_tokens: tuple[str, ...] = ()

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> Any:
        raise self._error

    def get_vocab(self) -> dict[str, int]:
        raise self._error


ODD = [KeyError("x"), RecursionError(), AssertionError(), UnicodeError("\x1b[2J"), ImportError("no protobuf\nhere")]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_whatever_a_tokenizer_raises_is_one_line(error: Exception) -> None:
    tokenizer = Raising(error)
    for kind, do in (
        (InputError, lambda: encode_pair(tokenizer, Pair("the"), "token", 9, False)),
        (ModelError, lambda: check_reads_sentences(tokenizer)),
        (ModelError, lambda: whole_words(tokenizer)),
    ):
        with pytest.raises(kind) as caught:
            do()
        assert "the tokenizer Raising" in str(caught.value) and caught.value.remedy
        assert len(str(caught.value).splitlines()) == 1 and "\x1b" not in str(caught.value)


def test_a_panic_of_rust_is_an_error() -> None:
    tokenizer = splitting(EXPLODES)
    with pytest.raises(InputError, match="retry-limit"):
        called(tokenizer, "the cat sat on the mat")
    with pytest.raises(ModelError, match=r"PreTrainedTokenizerFast|TokenizersBackend"):
        check_reads_sentences(tokenizer)
