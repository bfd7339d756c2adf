"""What a page may ask, and what is no question at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live import body_of
from starlette.exceptions import HTTPException

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair
from attnscan.results.predictions import Change
from attnscan.results.terms import AttentionKind, Head
from attnscan.server.session import question_of

CHANGED = {"b": "a dog", "hidden": [4, 2], "positions": "shuffled", "segments": "swapped", "off": ["2-0", "d0-11"]}


def test_a_question_with_everything() -> None:
    asked = question_of(body_of(**CHANGED, model=1), models=2)
    off = Head(0, 11, kind=AttentionKind.DECODER), Head(2, 0)
    assert asked.change == Change(hidden=(2, 4), positions="shuffled", segments="swapped", off=off)
    assert (asked.pair, asked.model) == (Pair("the cat", "a dog"), 1)
    again = question_of(json.dumps(asked.as_json()).encode(), models=2)
    assert again == asked and again.id == asked.id


def test_a_question_with_nothing_but_a_sentence() -> None:
    asked = question_of(body_of(), models=1)
    assert (asked.pair, asked.change, asked.model, asked.attention) == (Pair("the cat"), Change(), 0, "")
    assert list(asked.as_json()) == ["a", "b", "hidden", "positions", "segments", "off", "model"]  # as scripts ask


@pytest.mark.parametrize("other", [{"a": "the dog"}, {"b": "x"}, {"off": ["0-1"]}, {"hidden": [1]}, {"model": 1}])
def test_what_is_answered_otherwise_has_another_id(other: dict[str, Any]) -> None:
    assert question_of(body_of(**other), models=2).id != question_of(body_of(), models=2).id


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xff", b"[]", b"{", b'{"a": 1}', b'{"a": "x", "model": NaN}', b"[" * 60_000, b'{"a": "\\ud800"}'),
        b'{"a": "x", "model": ' + b"9" * 5000 + b"}",
        *(
            body_of(**{name: value})
            for name, value in {"b": 1, "path": "/etc/passwd", "positions": "upside down"}.items()
        ),
        *(body_of(model=value) for value in ("bert-base-uncased", 1, -1, True, 0.0)),
        *(body_of(hidden=value) for value in (3, ["3"], [-1], [65_536], [1.0], [0] * 4097)),
        *(body_of(off=value) for value in ("2-0", [[2, 0]], ["2-0,3-1"], ["٢-0"], ["all"], ["12345-0"], ["2-0\n"])),
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_no_page_asks(body: bytes) -> None:
    with pytest.raises(HTTPException) as refused:
        question_of(body, models=1)
    assert refused.value.status_code == 400


@pytest.mark.parametrize("fields", [{"a": " "}, {"b": ""}, {"a": "the cat\0sat"}])
def test_what_a_person_may_ask_is_told_as_files_tell_it(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        question_of(body_of(**fields), models=1)
    assert refused.value.remedy
