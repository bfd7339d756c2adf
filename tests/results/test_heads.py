"""Heads and tokens by name, and what is said when there are none."""

from __future__ import annotations

import pytest

from attnscan.errors import SelectionError
from attnscan.results.heads import head_name, heads_named, token_named

GRID = (3, 2)
TOKENS = ["[CLS]", "the", "store", "ĠThe", "Ġstore", "#", "##s", "2"]


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        ("2-0", [(2, 0)]),
        ("2-0,0-1", [(2, 0), (0, 1)]),
        (" 2-0 , 2-0", [(2, 0)]),
        ("layer:1", [(1, 0), (1, 1)]),
        ("1-1,layer:1", [(1, 1), (1, 0)]),
        ("all", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
    ],
)
def test_heads(text: str, heads: list[tuple[int, int]]) -> None:
    assert heads_named(text, GRID) == heads
    assert heads_named(",".join(map(head_name, heads)), GRID) == heads


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12-0", "12-0: this model has layers 0 to 2; give a layer among these"),
        ("0-2", "0-2: this model has heads 0 to 1; give a head among these"),
        ("layer:3", "layer:3: this model has layers 0 to 2; give a layer among these"),
        ("", "'' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("2-0,", "'' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("-1-0", "'-1-0' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("٢-٠x", "'٢-٠x' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("9" * 5000 + "-0", None),
    ],
)
def test_no_such_head(text: str, message: str | None) -> None:
    with pytest.raises(SelectionError) as error:
        heads_named(text, GRID)
    assert message is None or str(error.value) == message


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
