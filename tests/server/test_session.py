"""Answers that are held, those that are not any more, and what is asked of them second."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live import StandIn, body_of, session_of

from attnscan.errors import InputError
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.server.question import Question, question_of
from attnscan.server.session import Gone, Session

WAIT = 60


def ask(**fields: Any) -> Question:
    return question_of(body_of(**fields), models=2)


def answered(session: Session, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(session.answer(ask(**fields)).result(WAIT))
    return found


def test_an_answer_says_what_it_answers_and_is_held(session: Session, model: StandIn) -> None:
    found = answered(session, b="a dog", off=["2-0"])
    assert found["id"] == ask(b="a dog", off=["2-0"]).id
    assert found["question"] == ask(b="a dog", off=["2-0"]).as_json()
    again = answered(session, b="a dog", off=["2-0"])
    assert again == found and len(model.asked) == 1, "the model is not asked again"
    assert json.loads(session.numbers(found["id"], Head(0, 2)))
    assert b"<html" in session.page(found["id"]).result(WAIT)


def test_the_last_eight_answers_are_held_and_what_is_looked_at_stays(session: Session) -> None:
    ids = [answered(session, a=f"cat {i}")["id"] for i in range(8)]
    assert _is_held(session, ids[0])
    answered(session, a="cat 8")
    assert [name for name in ids if _is_held(session, name)] == [ids[0], *ids[2:]]


def _is_held(session: Session, name: str) -> bool:
    try:
        session.numbers(name, Head(0, 0))
    except Gone:
        return False
    return True


def test_the_first_page_is_of_any_model_and_the_same_after_its_answer_is_gone(result: HeadScores) -> None:
    models = StandIn(result), StandIn(result)
    with session_of(*models) as session:
        assert [signature.model for signature in session.signatures()] == ["bundled"] * 2
        assert [len(model.asked) for model in models] == [1, 1]
        page = session.page_of_first(1).result(WAIT)
        assert b"model 1" in page
        for i in range(8):
            answered(session, a=f"cat {i}")
        assert session.page_of_first(1).result(WAIT) == page
        assert [len(model.asked) for model in models] == [9, 2]


def test_an_error_of_the_input_is_raised_and_nothing_is_held(session: Session) -> None:
    future = session.answer(ask(a="too long"))
    with pytest.raises(InputError, match="shorten it"):
        future.result(WAIT)
    assert not session._held
