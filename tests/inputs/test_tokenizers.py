"""What a tokenizer raises is one line."""

from __future__ import annotations

from typing import Any

import pytest
from hostile.checkpoints import EXPLODES
from tokenizers import Regex, pre_tokenizers
from tokenizers_of_kinds import encode_pair, wordpiece

from attnscan.errors import InputError
from attnscan.inputs.encode import called
from attnscan.inputs.sentence import Pair


class Raising:
    """A tokenizer written in Python that fails at everything."""

    is_fast = False

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> Any:
        raise self._error


ODD = [KeyError("x"), RecursionError(), UnicodeError("\x1b[2J"), ImportError("no protobuf\nhere")]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_whatever_a_tokenizer_raises_is_one_line(error: Exception) -> None:
    with pytest.raises(InputError) as caught:
        encode_pair(Raising(error), Pair("the"), "token", 9, False)
    assert "the tokenizer Raising" in str(caught.value) and caught.value.remedy
    assert len(str(caught.value).splitlines()) == 1 and "\x1b" not in str(caught.value)


def test_a_panic_of_rust_is_an_error() -> None:
    tokenizer: Any = wordpiece()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(EXPLODES), "isolated")
    with pytest.raises(InputError, match="retry-limit"):
        called(tokenizer, "the cat sat on the mat")
