"""What a page may ask, and what is no question at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live import body_of

from attnscan.errors import AttnscanError, InputError
from attnscan.inputs.sentence import Pair
from attnscan.results.change import Change
from attnscan.results.grid import Head
from attnscan.server.question import Malformed, Question, head_of, question_of


def test_a_question_with_everything() -> None:
    asked = question_of(
        body_of(
            b="a dog",
            hidden=[4, 2],
            positions="shuffled",
            segments="swapped",
            off=["2-0", "0-11"],
            model=1,
        ),
        models=2,
    )
    change = Change(hidden=(2, 4), positions="shuffled", segments="swapped", off=(Head(0, 11), Head(2, 0)))
    assert asked == Question(Pair("the cat", "a dog"), change, 1)
    again = json.dumps(asked.as_json()).encode()
    assert question_of(again, models=2).id == asked.id


def test_a_question_with_nothing_but_a_sentence() -> None:
    assert question_of(body_of(), models=1) == Question(Pair("the cat"))


@pytest.mark.parametrize("other", [{"a": "the dog"}, {"b": "x"}, {"off": ["0-1"]}, {"hidden": [1]}, {"model": 1}])
def test_what_is_answered_otherwise_has_another_id(other: dict[str, Any]) -> None:
    plain = question_of(body_of(), models=2)
    assert question_of(body_of(**other), models=2).id != plain.id


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{",
        b'{"a": 1}',
        b'{"a": "x", "a": "y"}',
        b'{"a": "x", "model": NaN}',
        b'{"a": "x", "model": ' + b"9" * 5000 + b"}",
        b"[" * 60_000,
        b'{"\\ud800": 1, "a": "x"}',
        b'{"a":' * 10_000,
        *(
            body_of(**fields)
            for fields in (
                {"b": 1},
                {"b": ["x"]},
                {"path": "/etc/passwd"},
                {"model": "bert-base-uncased"},
                {"model": 1},
                {"model": -1},
                {"model": True},
                {"model": 0.0},
                {"hidden": 3},
                {"hidden": ["3"]},
                {"hidden": [-1]},
                {"hidden": [65_536]},
                {"hidden": [1.0]},
                {"hidden": [0] * 4097},
                {"off": "2-0"},
                {"off": [[2, 0]]},
                {"off": ["2-0,3-1"]},
                {"off": ["٢-0"]},
                {"off": ["all"]},
                {"positions": "upside down"},
                {"segments": "upside down"},
            )
        ),
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_no_page_asks(body: bytes) -> None:
    with pytest.raises(Malformed):
        question_of(body, models=1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"a": " "}, InputError),
        ({"b": ""}, InputError),
        ({"a": "the cat\0sat"}, InputError),
        ({"a": "x\ud800"}, InputError),
    ],
)
def test_what_a_person_may_ask_is_told_as_files_tell_it(fields: dict[str, Any], error: type[AttnscanError]) -> None:
    with pytest.raises(error) as refused:
        question_of(body_of(**fields), models=1)
    assert refused.value.remedy


def test_names() -> None:
    assert head_of("2-0") == Head(2, 0) and head_of("9999-9999") == Head(9999, 9999)
    assert [head_of(name) for name in ("", "2", "2-", "-1-0", "2-0 ", "2-0\n", "12345-0", "..-..")] == [None] * 8
