"""The server: what is answered over real sockets, and what other pages, other hosts and the careless send."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from live import HOST, PORT, TOKEN, StandIn, asked, body_of, fetched, listened
from starlette.applications import Starlette

from attnscan.errors import OutputError
from attnscan.server.app import MOST_BODY, listening
from attnscan.server.session import Session

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


def _until_closed(client: socket.socket) -> bytes:
    found = b""
    with client:
        while piece := client.recv(1 << 16):
            found += piece
    return found


def _request(port: int, body: bytes, length: int) -> bytes:
    lines = f"POST /{TOKEN}/answer HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {length}", "", ""
    return "\r\n".join(lines).encode() + body


def test_pages_and_answers(port: int) -> None:
    page = fetched(port, "")
    assert page.status == 200 and b"<html" in page.body and "server" not in page.headers
    answer = fetched(port, "answer", body_of(), Origin=f"http://127.0.0.1:{port}")
    assert answer.status == 200 and HEADERS.items() <= answer.headers.items()
    for path in (f"numbers/{answer.json['id']}/0-2", f"page/{answer.json['id']}", "?model=0"):
        assert fetched(port, path).status == 200
    for path in ("?model=1", "?model=-1", "?model=x", "?model="):
        assert fetched(port, path).status == 404


def test_it_is_on_this_machine_alone_and_a_port_that_is_taken_is_told() -> None:
    with listening(None) as own:
        assert own.getsockname()[0] == "127.0.0.1"
        with pytest.raises(OutputError, match=r"port \d+ is in use; choose another"):
            listening(own.getsockname()[1])


def test_many_questions_at_once_are_all_answered(port: int) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(lambda number: fetched(port, "answer", body_of(a=f"cat {number}")), range(40))
        assert [answer.status for answer in answers] == [200] * 40


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:20]),
)
def test_what_is_no_http_is_refused_in_silence(port: int, sent: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with suppress(ConnectionError):  # closed before all was read
        answer = _until_closed(_sent(port, sent))
        assert answer == b"" or answer.split(b" ", 2)[1] in (b"400", b"403", b"431")
    assert fetched(port, "").status == 200
    assert capfd.readouterr() == ("", "")


def test_one_that_goes_while_it_is_answered_costs_nothing_more(port: int, model: StandIn) -> None:
    model.let.clear()
    body = body_of(a="nobody waits")
    client = _sent(port, _request(port, body, len(body)))
    assert model.begun.wait(WAIT)
    client.close()
    model.let.set()
    assert fetched(port, "answer", body_of()).status == 200
    _sent(port, _request(port, body, 2000)).close()  # before its end
    assert fetched(port, "answer", body_of()).status == 200


def test_texts_stay_texts(port: int) -> None:
    hostile = "</script><script>alert(1)</script>\u2028\u202e\x1b[31m{{7*7}}<img src=x onerror=alert(1)>"
    answer = fetched(port, "answer", body_of(a=hostile))
    assert answer.status == 200 and answer.body.isascii() and b"\x1b" not in answer.body
    assert answer.headers["content-type"] == "application/json" and json.loads(answer.body)["question"]["a"] == hostile


def test_a_page_of_ours_is_answered(app: Starlette) -> None:
    page = asked(app, f"/{TOKEN}/", headers=[("sec-fetch-site", "none")])
    assert page.status == 200 and b"<html" in page.body and page.headers["content-type"].startswith("text/html")
    answer = asked(app, f"/{TOKEN}/answer", body_of(), OURS)
    assert answer.status == 200 and answer.json["id"] and answer.headers["content-type"] == "application/json"
    assert asked(app, f"/{TOKEN}/answer", body_of(), host=f"localhost:{PORT}").status == 200


NAMED = f"evil.example:{PORT}", f"0.0.0.0:{PORT}", f"127.0.0.1.evil.example:{PORT}", f"evil.example@{HOST}", "", None
ORIGINS = "null", "http://evil.example", f"https://{HOST}", "http://127.0.0.1", f"http://localhost:{PORT}"


@pytest.mark.parametrize(
    ("headers", "host", "status"),
    [
        *(([], host, 400) for host in NAMED),  # DNS rebinding: a name of the attacker's that leads here
        *(([("origin", origin)], HOST, 403) for origin in ORIGINS),
        ([("origin", f"http://{HOST}"), ("origin", "http://evil.example")], HOST, 403),
        *(
            ([("sec-fetch-site", site)], HOST, 403)
            for site in ("cross-site", "same-site", "same-origin, cross-site", "")
        ),
    ],
)
def test_other_hosts_and_other_pages_are_refused(app: Starlette, headers: Any, host: str | None, status: int) -> None:
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        refused = asked(app, path, body, headers, host)
        assert refused.status == status and b"<html" not in refused.body


def test_a_link_may_be_followed_from_anywhere_and_no_more(app: Starlette) -> None:
    """A page elsewhere that knows the address can open it in a tab, which it can neither read nor frame."""
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert asked(app, f"/{TOKEN}/", headers=link.items()).status == 200
    for name, value in (("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "iframe"), ("sec-fetch-dest", "script")):
        assert asked(app, f"/{TOKEN}/", headers=(link | {name: value}).items()).status == 403
    assert asked(app, f"/{TOKEN}/answer", body_of(), link.items()).status == 403


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"/{TOKEN.upper()}/", f"//{TOKEN}/", f"/x/{TOKEN}/"),
        *("/token/../", "/\ufffd/", "/שלום/", "*", "http://evil.example/", "/favicon.ico", "/docs"),
        *(f"/{TOKEN}/{path}" for path in ("../../../etc/passwd", "page/../../etc/passwd", "openapi.json", "static/x")),
    ],
)
def test_without_the_token_there_is_nothing_and_no_path_leads_anywhere_else(app: Starlette, path: str) -> None:
    for body in (None, body_of()):
        found = asked(app, path, body)
        assert found.status == 404 and b"<html" not in found.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_methods(app: Starlette, method: str) -> None:
    for path in ("", "answer", "page/0123456789abcdef"):
        answer = asked(app, f"/{TOKEN}/{path}", method=method)
        assert answer.status == 405 and "access-control-allow-origin" not in answer.headers


def test_a_body_is_bounded_and_says_how_long_it_is(app: Starlette) -> None:
    most = body_of(a="x")[:-1] + b" " * (MOST_BODY - len(body_of(a="x"))) + b"}"
    assert len(most) == MOST_BODY and asked(app, f"/{TOKEN}/answer", most).status == 200
    for refused in (asked(app, f"/{TOKEN}/answer", most + b" "), asked(app, f"/{TOKEN}/answer", method="POST")):
        assert refused.status == 413 and "shorten" in refused.json["error"] and refused.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("answer", body_of(a="too long"), 422, "the input is too long; shorten it"),
        ("answer", body_of(a="no memory"), 422, "memory ran out; ask about a shorter input"),
        ("answer", body_of(a=" "), 422, "sentence A is empty; give it at least one word, in quotes"),
        ("answer", b'{"a": 1}', 400, "a: Input should be a valid string"),
        (f"page/{'0' * 16}", None, 410, "this answer is not held any more"),
        ("x", None, 404, "Not Found"),
    ],
)
def test_what_cannot_be_answered_is_one_line(app: Starlette, path: str, body: Any, status: int, said: str) -> None:
    found = asked(app, f"/{TOKEN}/{path}", body)
    assert (found.status, found.json) == (status, {"error": said})
    assert HEADERS.items() <= found.headers.items() and "server" not in found.headers


def test_an_answer_is_saved_as_a_page_and_asked_for_heads(app: Starlette) -> None:
    name = asked(app, f"/{TOKEN}/answer", body_of()).json["id"]
    saved = asked(app, f"/{TOKEN}/page/{name}")
    assert saved.headers["content-disposition"] == 'attachment; filename="attnscan.html"'
    assert asked(app, f"/{TOKEN}/numbers/{name}/0-2").status == 200
    assert asked(app, f"/{TOKEN}/numbers/{name}/6-0").status == 422


def test_a_bug_of_ours_is_logged_and_not_told_to_the_network(app: Starlette, bugs: pytest.LogCaptureFixture) -> None:
    found = asked(app, f"/{TOKEN}/answer", body_of(a="a bug"))
    assert found.status == 500 and list(found.json) == ["error"] and b"ValueError" not in found.body
    assert "ValueError: a bug of ours" in bugs.text
    bugs.clear()
