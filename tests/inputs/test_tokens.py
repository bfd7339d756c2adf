"""Tokens by name, and what is said when there are none."""

from __future__ import annotations

import pytest

from attnscan.errors import SelectionError
from attnscan.inputs.tokens import token_named

TOKENS = ["[CLS]", "the", "store", "ĠThe", "Ġstore", "#", "##s", "2"]


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("store", 2),
        ("STORE", 2),
        ("store#1", 2),
        ("store#2", 4),
        ("the#2", 3),
        ("4", 4),
        ("#", 5),
        ("##s", 6),
        ("2#1", 7),
    ],
)
def test_tokens(text: str, index: int) -> None:
    assert token_named(text, TOKENS) == index


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store#3", "there is no store#3: the input has 2 of them; try store#1"),
        ("stor", "the input has no token 'stor'; did you mean 'store'?"),
        ("xyz", "the input has no token 'xyz'; give a token's text, or an index from 0 to 7"),
        ("99", "the input has no token '99'; give a token's text, or an index from 0 to 7"),
        ("store#0", None),
        ("", None),
    ],
)
def test_no_such_token(text: str, message: str | None) -> None:
    with pytest.raises(SelectionError) as error:
        token_named(text, TOKENS)
    assert message is None or str(error.value) == message
