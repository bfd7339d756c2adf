"""The server over real sockets: many clients at once, slow ones, those that lie, and those that leave.

What other pages, other hosts and the careless send is tried in one process.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from live import HOST, PORT, TOKEN, StandIn, asked, body_of, fetched, listened
from starlette.applications import Starlette

from attnscan.errors import OutputError
from attnscan.server import app as server_app
from attnscan.server.app import MOST_BODY, listening
from attnscan.server.session import Session

WAIT = 60


@pytest.fixture
def port(session: Session, bugs: list[Exception]) -> Iterator[int]:
    with listened(session, bugs) as port:
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


def _request(port: int, body: bytes, length: int | str, *lines: str) -> bytes:
    head = (
        f"POST /{TOKEN}/answer HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *lines,
    )
    return "\r\n".join([*head, "", ""]).encode() + body


def test_pages_and_answers(port: int) -> None:
    page = fetched(port, "")
    assert page.status == 200 and b"<html" in page.body and "server" not in page.headers
    answer = fetched(port, "answer", body_of(), Origin=f"http://127.0.0.1:{port}")
    assert answer.status == 200
    name = answer.json["id"]
    for path in (f"numbers/{name}/0-2", f"page/{name}"):
        assert fetched(port, path).status == 200
    assert fetched(port, "?model=0").status == 200
    for path in ("?model=1", "?model=-1", "?model=x", "?model="):
        assert fetched(port, path).status == 404


def test_it_is_nowhere_but_on_this_machine() -> None:
    with listening(None) as own:
        assert own.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_told() -> None:
    with listening(None) as own, pytest.raises(OutputError, match=r"port \d+ is in use; choose another"):
        listening(own.getsockname()[1])


def test_many_questions_at_once_are_all_answered(port: int) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(lambda number: fetched(port, "answer", body_of(a=f"cat {number}")), range(40))
        assert [answer.status for answer in answers] == [200] * 40


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n",
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


def test_a_length_that_lies(port: int) -> None:
    found = _until_closed(_sent(port, _request(port, body_of(), 5, "Connection: close")))
    assert found.split(b" ", 2)[1] == b"400"
    assert fetched(port, "answer", body_of()).status == 200


def test_one_that_goes_while_it_is_answered_costs_nothing_more(port: int, model: StandIn) -> None:
    model.let.clear()
    body = body_of(a="nobody waits")
    client = _sent(port, _request(port, body, len(body)))
    assert model.begun.wait(WAIT)
    client.close()
    model.let.set()
    assert fetched(port, "answer", body_of()).status == 200


def test_a_body_that_never_comes_to_its_end_is_given_up(
    session: Session, bugs: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listened(session, bugs) as port:
        with monkeypatch.context() as patch:
            patch.setattr(server_app, "SECONDS", 0.05)
            said = _until_closed(_sent(port, _request(port, body_of(), 2000)))
            assert said.startswith(b"HTTP/1.1 408 ") and b"is incomplete" in said
        assert fetched(port, "answer", body_of()).status == 200


def test_texts_stay_texts(port: int) -> None:
    hostile = "</script><script>alert(1)</script>\u2028\u202e\x1b[31m{{7*7}}<img src=x onerror=alert(1)>"
    answer = fetched(port, "answer", body_of(a=hostile))
    assert answer.status == 200 and answer.body.isascii() and b"\x1b" not in answer.body
    assert answer.headers["content-type"] == "application/json" and json.loads(answer.body)["question"]["a"] == hostile


HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
OURS = [("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")]


def test_a_page_of_ours_is_answered(app: Starlette) -> None:
    page = asked(app, f"/{TOKEN}/", headers=[("sec-fetch-site", "none")])
    assert page.status == 200 and b"<html" in page.body and page.headers["content-type"].startswith("text/html")
    answer = asked(app, f"/{TOKEN}/answer", body_of(), OURS)
    assert answer.status == 200 and answer.json["id"] and answer.headers["content-type"] == "application/json"
    assert asked(app, f"/{TOKEN}/answer", body_of(), host=f"localhost:{PORT}").status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", f"evil.example:{PORT}", f"0.0.0.0:{PORT}", f"127.0.0.1.evil.example:{PORT}"),
        *(f"evil.example@{HOST}", "", None),
    ],
)
def test_dns_rebinding(app: Starlette, host: str | None) -> None:
    """A name of the attacker's that leads here: the browser calls the host what the page's address says."""
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        refused = asked(app, path, body, host=host)
        assert refused.status == 400 and b"<html" not in refused.body


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin, cross-site", ""])
def test_other_sites(app: Starlette, site: str) -> None:
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        refused = asked(app, path, body, [("sec-fetch-site", site)])
        assert refused.status == 403 and b"<html" not in refused.body


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        f"https://{HOST}",
        "http://127.0.0.1",
        f"http://localhost:{PORT}",
        "http://127.0.0.1:1",
    ],
)
def test_other_origins(app: Starlette, origin: str) -> None:
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        assert asked(app, path, body, [("origin", origin)]).status == 403
        assert asked(app, path, body, [("origin", f"http://{HOST}"), ("origin", origin)]).status == 403


def test_a_link_may_be_followed_from_anywhere_and_no_more(app: Starlette) -> None:
    """A page elsewhere that knows the address can open it in a tab, which it can neither read nor frame."""
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert asked(app, f"/{TOKEN}/", headers=link.items()).status == 200
    for name, value in (("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "iframe"), ("sec-fetch-dest", "script")):
        assert asked(app, f"/{TOKEN}/", headers=(link | {name: value}).items()).status == 403
    assert asked(app, f"/{TOKEN}/answer", body_of(), link.items()).status == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None])
def test_what_a_form_can_post_is_refused(app: Starlette, kind: str | None) -> None:
    """Other pages may post these without asking."""
    headers = [] if kind is None else [("content-type", kind)]
    assert asked(app, f"/{TOKEN}/answer", headers=headers, method="POST").status == 415


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"/{TOKEN.upper()}/", f"//{TOKEN}/"),
        *("/token/../", "/\ufffd/", "/שלום/", "*", "http://evil.example/", f"/x/{TOKEN}/", "/favicon.ico", "/docs"),
    ],
)
def test_without_the_token_there_is_nothing(app: Starlette, path: str) -> None:
    for body in (None, body_of()):
        found = asked(app, path, body)
        assert found.status == 404 and b"<html" not in found.body


@pytest.mark.parametrize(
    "path",
    [
        *("../../../etc/passwd", "page/../../etc/passwd", "numbers/x/y"),
        *("pairs/all", "docs", "openapi.json", "redoc", "static/x", "/"),
    ],
)
def test_no_path_leads_anywhere_else(app: Starlette, path: str) -> None:
    assert asked(app, f"/{TOKEN}/{path}").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X"])
def test_methods(app: Starlette, method: str) -> None:
    for path in ("", "answer", "page/0123456789abcdef"):
        answer = asked(app, f"/{TOKEN}/{path}", method=method)
        assert answer.status == 405 and "access-control-allow-origin" not in answer.headers


def test_a_body_is_bounded_whatever_its_headers_say(app: Starlette) -> None:
    most = body_of(a="x")[:-1] + b" " * (MOST_BODY - len(body_of(a="x"))) + b"}"
    assert len(most) == MOST_BODY and asked(app, f"/{TOKEN}/answer", most).status == 200
    pieces = [most[:1000], most[1000:], b" "]
    refused = asked(app, f"/{TOKEN}/answer", pieces)
    assert refused.status == 413 and "shorten" in refused.json["error"] and refused.headers["connection"] == "close"


def test_every_answer_has_the_headers(app: Starlette) -> None:
    for path, status in (("", 200), ("x", 404), ("answer", 405), ("page/0123456789abcdef", 410)):
        found = asked(app, f"/{TOKEN}/{path}")
        assert found.status == status and HEADERS.items() <= found.headers.items()
        assert "server" not in found.headers
    for refused in (asked(app, "/"), asked(app, "/", host="x"), asked(app, f"/{TOKEN}/answer", b"{")):
        assert HEADERS.items() <= refused.headers.items()


def test_a_bug_of_ours_is_told_where_the_server_was_started_and_not_to_the_network(
    app: Starlette, bugs: list[Exception]
) -> None:
    found = asked(app, f"/{TOKEN}/answer", body_of(a="a bug"))
    assert found.status == 500 and list(found.json) == ["error"] and b"ValueError" not in found.body
    (bug,) = bugs
    assert isinstance(bug, ValueError)
    bugs.clear()


@pytest.mark.parametrize(
    ("asked_for", "status", "said"),
    [
        ("too long", 422, "the input is too long; shorten it"),
        ("no memory", 422, "memory ran out; ask about a shorter input"),
        (" ", 422, "sentence A is empty; give it at least one word, in quotes"),
    ],
)
def test_what_a_person_can_mend_is_one_line(app: Starlette, asked_for: str, status: int, said: str) -> None:
    found = asked(app, f"/{TOKEN}/answer", body_of(a=asked_for))
    assert (found.status, found.json) == (status, {"error": said})


def test_other_statuses(app: Starlette) -> None:
    gone = asked(app, f"/{TOKEN}/page/{'0' * 16}")
    assert (gone.status, gone.json) == (410, {"error": "this answer is not held any more"})
    assert asked(app, f"/{TOKEN}/answer", b'{"a": 1}').json == {"error": "a: Input should be an instance of str"}
    name = asked(app, f"/{TOKEN}/answer", body_of()).json["id"]
    saved = asked(app, f"/{TOKEN}/page/{name}")
    assert saved.headers["content-disposition"] == 'attachment; filename="attnscan.html"'
    assert asked(app, f"/{TOKEN}/numbers/{name}/0-2").status == 200
    assert asked(app, f"/{TOKEN}/numbers/{name}/6-0").status == 422
