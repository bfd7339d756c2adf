"""The server: what a page may ask, what is answered and held, and what others and the careless
send.
"""

import json
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from support.live_session import (
    HOST,
    PORT,
    TOKEN,
    StandIn,
    body_of,
    call,
    fetched,
    listened,
    session_of,
)
from support.page_contents import Elements

from attnscan.errors import InputError, SelectionError
from attnscan.inputs.sentence import Pair
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Change
from attnscan.server.app import MAX_BODY, listening
from attnscan.server.session import Question, Session, question_of
from attnscan.text import plain

WAIT = 60
OURS = [("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")]
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@pytest.fixture
def port(session: Session) -> Iterator[int]:
    with listened(session) as port:
        yield port


def _sent(port: int, data: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
    client.sendall(data)
    return client


def _request(port: int, body: bytes, length: int) -> bytes:
    lines = (
        f"POST /{TOKEN}/answer HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Length: {length}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


def test_pages_and_answers(port: int) -> None:
    page = fetched(port, "")
    assert page.status_code == 200
    assert b"<html" in page.content
    assert "server" not in page.headers
    answer = fetched(port, "answer", body_of(), Origin=f"http://127.0.0.1:{port}")
    assert answer.status_code == 200
    assert HEADERS.items() <= answer.headers.items()
    for path in (f"numbers/{answer.json()['id']}/0-2", f"page/{answer.json()['id']}", "?model=0"):
        assert fetched(port, path).status_code == 200
    for path in ("?model=1", "?model=-1", "?model=x", "?model="):
        assert fetched(port, path).status_code == 404


def test_the_server_is_on_this_machine_alone() -> None:
    with listening(None) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_many_questions_at_once_are_all_answered(port: int) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(
            lambda number: fetched(port, "answer", body_of(a=f"cat {number}")), range(40)
        )
        assert [answer.status_code for answer in answers] == [200] * 40


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:20]),
)
def test_what_is_no_http_is_refused_in_silence(
    port: int, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = b""
    with suppress(ConnectionError), _sent(port, sent) as client:  # closed before all was read
        while piece := client.recv(1 << 16):
            answer += piece
        assert answer == b"" or answer.split(b" ", 2)[1] in (b"400", b"403", b"431")
    assert fetched(port, "").status_code == 200
    assert capfd.readouterr() == ("", "")


def test_one_that_goes_while_it_is_answered_blocks_nobody(port: int, model: StandIn) -> None:
    model.let.clear()
    body = body_of(a="nobody waits")
    client = _sent(port, _request(port, body, len(body)))
    assert model.begun.wait(WAIT)
    client.close()
    model.let.set()
    assert fetched(port, "answer", body_of()).status_code == 200
    _sent(port, _request(port, body, 2000)).close()  # before its end
    assert fetched(port, "answer", body_of()).status_code == 200


def test_a_page_of_ours_is_answered(app: Starlette) -> None:
    page = call(app, f"/{TOKEN}/", headers=[("sec-fetch-site", "none")])
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert b"<html" in page.content
    answer = call(app, f"/{TOKEN}/answer", body_of(), OURS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["id"]
    assert call(app, f"/{TOKEN}/answer", body_of(), host=f"localhost:{PORT}").status_code == 200


def test_an_answer_can_be_saved(app: Starlette) -> None:
    answer = call(app, f"/{TOKEN}/answer", body_of(), OURS)
    saved = call(app, f"/{TOKEN}/page/{answer.json()['id']}")
    assert saved.headers["content-disposition"] == 'attachment; filename="attnscan.html"'


@pytest.mark.parametrize(("head", "status"), [("0-2", 200), ("6-0", 422)])
def test_an_answer_has_numbers_of_heads(app: Starlette, head: str, status: int) -> None:
    answer = call(app, f"/{TOKEN}/answer", body_of(), OURS)
    assert call(app, f"/{TOKEN}/numbers/{answer.json()['id']}/{head}").status_code == status


NAMED = (
    f"evil.example:{PORT}",
    f"0.0.0.0:{PORT}",
    f"127.0.0.1.evil.example:{PORT}",
    f"evil.example@{HOST}",
    "",
    None,
)
ORIGINS = (
    "null",
    "http://evil.example",
    f"https://{HOST}",
    "http://127.0.0.1",
    f"http://localhost:{PORT}",
)


@pytest.mark.parametrize(
    ("headers", "host", "status"),
    [
        *(
            ([], host, 400) for host in NAMED
        ),  # DNS rebinding: a name of the attacker's that leads here
        *(([("origin", origin)], HOST, 403) for origin in ORIGINS),
        ([("origin", f"http://{HOST}"), ("origin", "http://evil.example")], HOST, 403),
        *(
            ([("sec-fetch-site", site)], HOST, 403)
            for site in ("cross-site", "same-site", "same-origin, cross-site", "")
        ),
    ],
)
def test_other_hosts_and_other_pages_are_refused(
    app: Starlette, headers: Any, host: str | None, status: int
) -> None:
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        refused = call(app, path, body, headers, host)
        assert refused.status_code == status
        assert b"<html" not in refused.content


def test_a_link_may_be_followed_from_anywhere_and_no_more(app: Starlette) -> None:
    """A page elsewhere that knows the address can open it in a tab, which it can neither read nor
    frame.
    """
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert call(app, f"/{TOKEN}/", headers=link.items()).status_code == 200
    for name, value in (
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "iframe"),
        ("sec-fetch-dest", "script"),
    ):
        assert call(app, f"/{TOKEN}/", headers=(link | {name: value}).items()).status_code == 403
    assert call(app, f"/{TOKEN}/answer", body_of(), link.items()).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "//",
            f"/{TOKEN[:-1]}/",
            f"/{TOKEN}x/",
            f"/{TOKEN.upper()}/",
            f"//{TOKEN}/",
            f"/x/{TOKEN}/",
        ),
        *("/token/../", "/\ufffd/", "/שלום/", "*", "http://evil.example/", "/favicon.ico", "/docs"),
        *(
            f"/{TOKEN}/{path}"
            for path in ("../../../etc/passwd", "page/../../etc/passwd", "openapi.json", "static/x")
        ),
    ],
)
def test_no_path_leads_anywhere_without_the_token(app: Starlette, path: str) -> None:
    for body in (None, body_of()):
        found = call(app, path, body)
        assert found.status_code == 404
        assert b"<html" not in found.content


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_other_methods_are_refused(app: Starlette, method: str) -> None:
    for path in ("", "answer", "page/0123456789abcdef"):
        answer = call(app, f"/{TOKEN}/{path}", method=method)
        assert answer.status_code == 405
        assert "access-control-allow-origin" not in answer.headers


def test_a_body_is_bounded_and_says_how_long_it_is(app: Starlette) -> None:
    most = body_of(a="x")[:-1] + b" " * (MAX_BODY - len(body_of(a="x"))) + b"}"
    assert len(most) == MAX_BODY
    assert call(app, f"/{TOKEN}/answer", most).status_code == 200
    for refused in (
        call(app, f"/{TOKEN}/answer", most + b" "),
        call(app, f"/{TOKEN}/answer", method="POST"),
    ):
        assert refused.status_code == 413
        assert "shorten" in refused.json()["error"]
        assert refused.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("answer", body_of(a="too long"), 422, "the input is too long; shorten it"),
        ("answer", body_of(a="no memory"), 422, "memory ran out; ask about a shorter input"),
        (
            "answer",
            body_of(a=" "),
            422,
            "sentence A is empty; give it at least one word, in quotes",
        ),
        ("answer", b'{"a": 1}', 400, "a: Input should be a valid string"),
        (f"page/{'0' * 16}", None, 410, "this answer is not held any more"),
        ("x", None, 404, "Not Found"),
    ],
)
def test_what_cannot_be_answered_is_one_line(
    app: Starlette, path: str, body: Any, status: int, said: str
) -> None:
    found = call(app, f"/{TOKEN}/{path}", body)
    assert (found.status_code, found.json()) == (status, {"error": said})
    assert HEADERS.items() <= found.headers.items()
    assert "server" not in found.headers


def test_a_bug_of_ours_is_logged_and_not_told_to_the_network(
    app: Starlette, bugs: pytest.LogCaptureFixture
) -> None:
    found = call(app, f"/{TOKEN}/answer", body_of(a="a bug"))
    assert found.status_code == 500
    assert list(found.json()) == ["error"]
    assert b"ValueError" not in found.content
    assert "ValueError: a bug of ours" in bugs.text
    bugs.clear()


VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        2**31,
        2**63,
        10**400,
        1.5,
        1e308,
        -0.0,
        [],
        {},
        [[]],
        [None],
        [0] * 5000,
        "",
        " ",
        "\x00",
    ),
    *(
        "\x1b]0;mine\x07",
        "\u202e",
        "\ufeff",
        "\ud800",
        "x" * 70_000,
        "[CLS] [SEP]",
        "</script>",
        "../../etc/passwd",
    ),
)
FIELDS = ("a", "b", "hidden", "positions", "segments", "off", "model", "path", "__class__")


def body(draw: random.Random) -> bytes:
    """Fields of wrong kinds, and JSON that is whole, cut, changed by bytes, or opened and never
    closed.
    """
    fields = json.loads(body_of(b="a dog", hidden=[1], off=["2-0"]))
    fields |= {draw.choice(FIELDS): draw.choice(VALUES) for _ in range(draw.randrange(4))}
    whole = json.dumps(fields, ensure_ascii=draw.random() < 0.5).encode(errors="surrogatepass")
    changed = bytearray(whole)
    for _ in range(draw.randrange(1, 9)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    opened = draw.choice([b"[", b'{"a":', b'"\\u', b"\xff\xfe", b"-", b"1e"]) * draw.randrange(
        1, 10_000
    )
    return draw.choice(
        [whole, whole, whole[: draw.randrange(len(whole) + 1)], bytes(changed), opened]
    )


def test_hostile_bodies(app: Starlette) -> None:
    found = set()
    for seed in range(200):
        answer = call(app, f"/{TOKEN}/answer", body(random.Random(seed)))
        assert answer.headers["content-type"] == "application/json", (seed, answer)
        assert answer.content.isascii(), (seed, answer)
        assert b"\x1b" not in answer.content, (seed, answer)
        found.add(answer.status_code)
        if answer.status_code != 200:
            said = answer.json()["error"]
            assert list(answer.json()) == ["error"], (seed, said)
            assert 0 < len(said) < 500, (seed, said)
            assert plain(said) == said, (seed, said)
    assert found == {200, 400, 413, 422}
    assert call(app, f"/{TOKEN}/answer", body_of()).status_code == 200


def ask(**fields: Any) -> Question:
    return question_of(body_of(**fields), models=2)


def answered(session: Session, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(session.answer(ask(**fields)))
    return found


def test_an_answer_says_what_it_answers_and_is_held(session: Session, model: StandIn) -> None:
    question = ask(b="a dog", off=["2-0"])
    found = answered(session, b="a dog", off=["2-0"])
    assert (found["id"], found["question"]) == (question.id, question.as_json())
    assert answered(session, b="a dog", off=["2-0"]) == found, "the model is not asked again"
    assert len(model.calls) == 1, "the model is not asked again"
    assert json.loads(session.numbers(found["id"], "0-2"))
    assert b"<html" in session.page(found["id"])
    with pytest.raises(SelectionError, match="9-9: this model has layers 0 to 5"):
        session.numbers(found["id"], "9-9")


def test_eight_answers_are_held_by_when_they_were_looked_at(session: Session) -> None:
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


def test_after_an_error_of_the_input_nothing_is_held(session: Session, model: StandIn) -> None:
    for times in (1, 2):
        with pytest.raises(InputError, match="shorten it"):
            answered(session, a="too long")
        assert len(model.calls) == times
        assert not _is_held(session, ask(a="too long").id)


def test_the_first_page_is_made_again_after_its_answer_is_gone(
    result: HeadScores,
) -> None:
    models = StandIn(result), StandIn(result, {"off": "no\x1b[31m"})
    with session_of(*models) as session:
        page = session.first_page(1)
        assert Elements(page.decode()).data["live"]["available"] == [{}, {"off": r"no\x1b[31m"}]
        assert b"model 1" in page
        assert [len(model.calls) for model in models] == [0, 1]
        for i in range(8):
            answered(session, a=f"cat {i}")
        assert session.first_page(1) == page
        assert [len(model.calls) for model in models] == [8, 2]


def test_a_question_with_everything() -> None:
    changed = {
        "hidden": [4, 2],
        "positions": "shuffled",
        "segments": "swapped",
        "off": ["2-0", "d0-11"],
    }
    question = question_of(body_of(b="a dog", **changed, model=1), models=2)
    off = Head(0, 11, kind=AttentionKind.DECODER), Head(2, 0)
    assert question.change == Change(
        hidden=(2, 4), positions="shuffled", segments="swapped", off=off
    )
    assert (question.pair, question.model) == (Pair("the cat", "a dog"), 1)
    again = question_of(json.dumps(question.as_json()).encode(), models=2)
    assert again == question
    assert again.id == question.id


def test_a_question_with_nothing_but_a_sentence() -> None:
    question = question_of(body_of(), models=1)
    assert (question.pair, question.change, question.model, question.attention) == (
        Pair("the cat"),
        Change(),
        0,
        "",
    )
    assert list(question.as_json()) == [
        "a",
        "b",
        "hidden",
        "positions",
        "segments",
        "off",
        "model",
    ]  # as scripts ask


def test_what_is_answered_otherwise_has_another_id() -> None:
    others = [{"a": "the dog"}, {"b": "x"}, {"off": ["0-1"]}, {"hidden": [1]}, {"model": 1}]
    assert len(
        {question_of(body_of(**fields), models=2).id for fields in ({}, *others)}
    ) == 1 + len(others)


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"\xff",
            b"[]",
            b"{",
            b'{"a": 1}',
            b'{"a": "x", "model": NaN}',
            b"[" * 60_000,
            b'{"a": "\\ud800"}',
        ),
        b'{"a": "x", "model": ' + b"9" * 5000 + b"}",
        *(body_of(b=1), body_of(path="/etc/passwd"), body_of(positions="upside down")),
        *(body_of(model=value) for value in ("bert-base-uncased", 1, -1, True, 0.0)),
        *(body_of(hidden=value) for value in (3, ["3"], [-1], [65_536], [1.0], [0] * 4097)),
        *(
            body_of(off=value)
            for value in ("2-0", [[2, 0]], ["2-0,3-1"], ["٢-0"], ["all"], ["12345-0"], ["2-0\n"])
        ),
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_no_page_asks(body: bytes) -> None:
    with pytest.raises(HTTPException) as refused:
        question_of(body, models=1)
    assert refused.value.status_code == 400
