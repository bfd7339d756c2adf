"""Answers that are held, those that are not any more, and what is asked of them second."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live import StandIn, body_of, session_of
from starlette.exceptions import HTTPException

from attnscan.errors import InputError, SelectionError
from attnscan.results.heads import HeadScores
from attnscan.server.session import Question, Session, question_of


def ask(**fields: Any) -> Question:
    return question_of(body_of(**fields), models=2)


def answered(session: Session, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(session.answer(ask(**fields)))
    return found


def test_an_answer_says_what_it_answers_and_is_held(session: Session, model: StandIn) -> None:
    question = ask(b="a dog", off=["2-0"])
    found = answered(session, b="a dog", off=["2-0"])
    assert (found["id"], found["question"]) == (question.id, question.as_json())
    assert answered(session, b="a dog", off=["2-0"]) == found and len(model.asked) == 1, "the model is not asked again"
    assert json.loads(session.numbers(found["id"], "0-2"))
    assert b"<html" in session.page(found["id"])
    with pytest.raises(SelectionError, match="9-9: this model has layers 0 to 5"):
        session.numbers(found["id"], "9-9")


def test_the_last_eight_answers_are_held_and_what_is_looked_at_stays(session: Session) -> None:
    ids = [answered(session, a=f"cat {i}")["id"] for i in range(8)]
    assert _is_held(session, ids[0])
    answered(session, a="cat 8")
    assert [name for name in ids if _is_held(session, name)] == [ids[0], *ids[2:]]


def _is_held(session: Session, name: str) -> bool:
    try:
        session.numbers(name, "0-0")
    except HTTPException as gone:
        assert gone.status_code == 410
        return False
    return True


def test_the_first_page_is_of_any_model_and_the_same_after_its_answer_is_gone(result: HeadScores) -> None:
    models = StandIn(result), StandIn(result)
    with session_of(*models) as session:
        page = session.first_page(1)
        assert b"model 1" in page and [len(model.asked) for model in models] == [0, 1]
        for i in range(8):
            answered(session, a=f"cat {i}")
        assert session.first_page(1) == page
        assert [len(model.asked) for model in models] == [8, 2]


def test_an_error_of_the_input_is_raised_and_nothing_is_held(session: Session) -> None:
    with pytest.raises(InputError, match="shorten it"):
        session.answer(ask(a="too long"))
    assert not session._held
