"""What other pages, other hosts and the careless can send, in one process; `test_app` sends it over sockets."""

from __future__ import annotations

import json

import pytest
from live import HOST, PORT, TOKEN, asked, body_of

from attnscan.server.guard import MOST_BODY, App, Guard

HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
OURS = [("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")]


def test_a_page_of_ours_is_answered(app: App) -> None:
    page = asked(app, f"/{TOKEN}/", headers=[("sec-fetch-site", "none")])
    assert page.status == 200 and b"<html" in page.body and page.headers["content-type"].startswith("text/html")
    answer = asked(app, f"/{TOKEN}/answer", body_of(), OURS)
    assert answer.status == 200 and answer.json["id"] and answer.headers["content-type"] == "application/json"
    assert asked(app, f"/{TOKEN}/answer", body_of(turn=2), host=f"localhost:{PORT}").status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", f"0.0.0.0:{PORT}", f"[::1]:{PORT}"),
        *(f"127.0.0.1.evil.example:{PORT}", f"{HOST}.evil.example", f"evil.example@{HOST}", f"{HOST},{HOST}", "", None),
    ],
)
def test_dns_rebinding(app: App, host: str | None) -> None:
    """A name of the attacker's that leads here: the browser calls the host what the page's address says."""
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        refused = asked(app, path, body, host=host)
        assert (refused.status, refused.body) == (403, b"")
    assert asked(app, f"/{TOKEN}/", headers=[("host", HOST)], host=host or "").status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin, cross-site", ""])
def test_other_sites(app: App, site: str) -> None:
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
def test_other_origins(app: App, origin: str) -> None:
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/answer", body_of())):
        assert asked(app, path, body, [("origin", origin)]).status == 403
        assert asked(app, path, body, [("origin", f"http://{HOST}"), ("origin", origin)]).status == 403


def test_a_link_may_be_followed_from_anywhere_and_no_more(app: App) -> None:
    """A page elsewhere that knows the address can open it in a tab, which it can neither read nor frame."""
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert asked(app, f"/{TOKEN}/", headers=link.items()).status == 200
    for name, value in (("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "iframe"), ("sec-fetch-dest", "script")):
        assert asked(app, f"/{TOKEN}/", headers=(link | {name: value}).items()).status == 403
    assert asked(app, f"/{TOKEN}/answer", body_of(), link.items()).status == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None])
def test_what_a_form_can_post_is_refused(app: App, kind: str | None) -> None:
    """Other pages may post these without asking."""
    headers = [] if kind is None else [("content-type", kind)]
    assert asked(app, f"/{TOKEN}/answer", headers=headers, method="POST").status == 415


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "//", f"/{TOKEN}", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"/{TOKEN.upper()}/", f"//{TOKEN}/"),
        *("/token/../", "/\ufffd/", "/שלום/", "*", "http://evil.example/", f"/x/{TOKEN}/", "/favicon.ico", "/docs"),
    ],
)
def test_without_the_token_there_is_nothing(app: App, path: str) -> None:
    for body in (None, body_of()):
        found = asked(app, path, body)
        assert (found.status, found.body) == (404, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("../../../etc/passwd", "page/../../etc/passwd", "page/%2e%2e", "page/0123456789abcdeg", "numbers/x/2-0"),
        *("numbers/0123456789abcdef/../2-0", "pairs/all", "docs", "openapi.json", "redoc", "static/x", "answer/", "/"),
    ],
)
def test_no_path_leads_anywhere_else(app: App, path: str) -> None:
    assert asked(app, f"/{TOKEN}/{path}").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X"])
def test_methods(app: App, method: str) -> None:
    for path in ("", "answer", "page/0123456789abcdef"):
        answer = asked(app, f"/{TOKEN}/{path}", method=method)
        assert answer.status == 405 and "access-control-allow-origin" not in answer.headers


def test_a_body_is_bounded_whatever_its_headers_say(app: App) -> None:
    most = body_of(a="x")[:-1] + b" " * (MOST_BODY - len(body_of(a="x"))) + b"}"
    assert len(most) == MOST_BODY and asked(app, f"/{TOKEN}/answer", most).status == 200
    pieces = [most[:1000], most[1000:], b" "]
    refused = asked(app, f"/{TOKEN}/answer", pieces)
    assert refused.status == 413 and "shorten" in refused.json["error"] and refused.headers["connection"] == "close"
    for length in (str(MOST_BODY + 1), "9" * 30, "-1", "1e3", "٣"):
        assert asked(app, f"/{TOKEN}/answer", body_of(), [("content-length", length)]).status == 413


def test_every_answer_has_the_headers(app: App) -> None:
    for path, status in (("", 200), ("x", 404), ("answer", 405), ("rest/0123456789abcdef", 410)):
        found = asked(app, f"/{TOKEN}/{path}")
        assert found.status == status and HEADERS.items() <= found.headers.items()
        assert "server" not in found.headers
    for refused in (asked(app, "/"), asked(app, "/", host="x"), asked(app, f"/{TOKEN}/answer", b"{")):
        assert HEADERS.items() <= refused.headers.items()


def test_a_bug_of_ours_is_told_where_the_server_was_started_and_not_to_the_network(
    app: App, bugs: list[Exception]
) -> None:
    found = asked(app, f"/{TOKEN}/answer", body_of(a="a bug"))
    assert found.status == 500 and list(found.json) == ["error"] and b"ValueError" not in found.body
    (bug,) = bugs
    assert isinstance(bug, ValueError)
    bugs.clear()


def test_other_protocols_get_nothing() -> None:
    async def nothing(*_: object) -> None:
        raise AssertionError

    guard = Guard(nothing, TOKEN, PORT, lambda _: None)
    with pytest.raises(StopIteration):
        guard({"type": "websocket"}, nothing, nothing).__await__().__next__()


@pytest.mark.parametrize(
    ("asked_for", "status", "said"),
    [
        ("too long", 422, "the input is too long; shorten it"),
        ("no memory", 422, "memory ran out; ask about a shorter input"),
        (" ", 422, "sentence A is empty; give it at least one word, in quotes"),
    ],
)
def test_what_a_person_can_mend_is_one_line(app: App, asked_for: str, status: int, said: str) -> None:
    found = asked(app, f"/{TOKEN}/answer", body_of(a=asked_for))
    assert (found.status, found.json) == (status, {"error": said})


def test_other_statuses(app: App) -> None:
    assert asked(app, f"/{TOKEN}/answer", body_of(turn=3)).status == 200
    stale = asked(app, f"/{TOKEN}/answer", body_of(turn=2))
    assert (stale.status, stale.json) == (202, {"stale": True})
    gone = asked(app, f"/{TOKEN}/rest/{'0' * 16}")
    assert (gone.status, gone.json) == (410, {"gone": True})
    assert asked(app, f"/{TOKEN}/answer", b'{"a": 1}').json == {"error": "a: Input should be an instance of str"}
    name = asked(app, f"/{TOKEN}/answer", body_of(turn=4)).json["id"]
    saved = asked(app, f"/{TOKEN}/page/{name}")
    assert saved.headers["content-disposition"] == 'attachment; filename="attnscan.html"'
    assert asked(app, f"/{TOKEN}/numbers/{name}/0-2").status == 200
    assert asked(app, f"/{TOKEN}/numbers/{name}/6-0").status == 422
    assert json.loads(asked(app, f"/{TOKEN}/rest/{name}").body)["predictions"] == []
