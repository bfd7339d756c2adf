"""Answers that are held, those that are not any more, and what is asked of them second."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from live import Answer, StandIn, body_of, session_of

from attnscan.errors import InputError, OptionError
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.server.question import Question, question_of
from attnscan.server.session import Gone, HeldResult, Session
from attnscan.server.worker import Stale
from attnscan.views.page.live import answer_of, numbers_of

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
    again = answered(session, b="a dog", off=["2-0"], turn=2, client="you")
    assert again == found and len(model.asked) == 1, "the model is not asked again"
    assert json.loads(session.numbers(found["id"], Head(0, 2)))
    assert json.loads(session.rest(found["id"]).result(WAIT))
    assert b"<html" in session.page(found["id"]).result(WAIT)


def test_what_was_never_answered_is_gone(session: Session) -> None:
    for second in (session.rest, session.page):
        with pytest.raises(Gone):
            second("0" * 16)
    with pytest.raises(Gone):
        session.numbers("0" * 16, Head(0, 0))
    with pytest.raises(Gone):
        session.answer(ask(beside="0" * 16)).result(WAIT)


def test_the_last_answers_are_held_by_bytes_and_two_in_any_case(model: StandIn, result: Classification) -> None:
    for room, held in ((3 * HeldResult(result).size, 3), (1, 2)):
        with session_of(model, most_bytes=room) as session:
            ids = [answered(session, a=f"cat {i}", turn=i)["id"] for i in range(5)]
            answered(session, a="cat 4", turn=6)
            found = [name for name in ids if _is_held(session, name)]
            assert found == ids[-held:]
            assert session._bytes() == held * HeldResult(result).size


def test_what_is_looked_at_stays(model: StandIn, result: Classification) -> None:
    with session_of(model, most_bytes=2 * HeldResult(result).size) as session:
        first = answered(session, a="cat 0", turn=1)["id"]
        for i in range(1, 5):
            session.numbers(first, Head(0, 0))
            answered(session, a=f"cat {i}", turn=i + 1)
        assert _is_held(session, first)


def _is_held(session: Session, name: str) -> bool:
    try:
        session.numbers(name, Head(0, 0))
    except Gone:
        return False
    return True


def test_two_answers_are_laid_beside_each_other(session: Session) -> None:
    first = answered(session)
    beside = answered(session, a="the dog", beside=first["id"], turn=2)
    assert beside["changed"] is not None and not beside["whyNotBeside"]
    assert "changed" not in first


def test_heads_that_are_not_there(session: Session) -> None:
    name = answered(session)["id"]
    for head in (Head(6, 0), Head(0, 12), Head(9999, 9999)):
        with pytest.raises(OptionError, match="there is no head"):
            session.numbers(name, head)


def test_an_error_of_the_input_is_raised_and_nothing_is_held(session: Session) -> None:
    future = session.answer(ask(a="too long"))
    with pytest.raises(InputError, match="shorten it"):
        future.result(WAIT)
    assert not session._held


def test_the_rest_is_dropped_for_a_newer_answer_and_may_be_asked_again(session: Session, model: StandIn) -> None:
    name = answered(session)["id"]
    model.begun.clear()
    model.let.clear()
    rest = session.rest(name)
    assert model.begun.wait(WAIT)
    other = session.answer(ask(a="the dog", client="you"))
    model.let.set()
    with pytest.raises(Stale):
        rest.result(WAIT)
    assert json.loads(other.result(WAIT)) and model.finished == 0
    assert json.loads(session.rest(name).result(WAIT)) and model.finished == 1


def test_of_the_last_two_questions_what_finishing_them_needs_is_held_and_others_are_run_again(
    session: Session, model: StandIn
) -> None:
    first, second, third = (answered(session, a=f"cat {i}", turn=i)["id"] for i in range(3))
    for name, runs in ((second, 3), (third, 3), (first, 4), (second, 5)):
        assert json.loads(session.rest(name).result(WAIT))
        assert len(model.asked) == runs, "the model ran so often"
    assert len(session._trials) == 2


def test_an_earlier_answer_of_the_same_client_can_be_looked_at_and_saved(session: Session) -> None:
    first = answered(session, turn=1)["id"]
    answered(session, a="the dog", turn=2)
    assert json.loads(session.rest(first).result(WAIT))
    assert b"<html" in session.page(first).result(WAIT)


def test_the_first_page_is_of_any_model_and_the_same_after_its_answer_is_gone(result: Classification) -> None:
    models = StandIn(result), StandIn(result)
    with session_of(*models, most_bytes=1) as session:
        assert [signature.model for signature in session.signatures()] == ["bundled"] * 2
        assert [len(model.asked) for model in models] == [1, 1]
        page = session.page_of_first(1).result(WAIT)
        assert b"model 1" in page
        for i in range(4):
            answered(session, a=f"cat {i}", turn=i)
        assert session.page_of_first(1).result(WAIT) == page
        assert [len(model.asked) for model in models] == [5, 2]


def test_answers_are_ascii(session: Session) -> None:
    body = session.answer(ask(a="שלום 😀 \u202e</script>")).result(WAIT)
    assert body.isascii() and Answer(200, {}, body).json["question"]["a"].endswith("</script>")


def test_it_answers_as_the_result_does(result: Classification) -> None:
    held = HeldResult(result)
    again = held.result()
    assert answer_of(again, "1", ()) == answer_of(result, "1", ())
    assert numbers_of(again, Head(1, 2)) == numbers_of(result, Head(1, 2))
    del held
    assert np.array_equal(again.kept_attention().weights, result.kept_attention().weights), "the memory is still there"


def test_its_size_is_its_frame_and_all_its_arrays_from_line_to_line(result: Classification) -> None:
    arrays: list[pickle.PickleBuffer] = []
    frame = pickle.dumps(result, protocol=5, buffer_callback=arrays.append)
    lines = sum(-(-array.raw().nbytes // 64) for array in arrays)
    assert HeldResult(result).size == len(frame) + 64 * lines
    assert 64 * lines > result.kept_attention().weights.nbytes


def test_what_is_unpacked_cannot_be_changed_and_begins_on_a_cache_line(result: Classification) -> None:
    attention = HeldResult(result).result().kept_attention()
    for array in (attention.weights, attention.visible, attention.norms):
        assert array is not None and array.ctypes.data % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
