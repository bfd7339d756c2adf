"""What is refused before anything else sees it: other hosts, other pages, other paths, large and slow bodies.

Another page in the same browser can send requests here, and by DNS rebinding read what comes back. So each request must
name this server as its host, know the token, and come from our page or the address bar; what is posted must be JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from secrets import compare_digest
from typing import Any

MOST_BODY = 64 << 10
BUG = "attnscan failed: the terminal that started it shows the error"
SECONDS = 10.0  # for a whole body
_FOR_ALL = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class _Refused(Exception):
    """With a status, and what to say to those who know the token."""

    def __init__(self, status: int, what: str = "") -> None:
        super().__init__(status, what)
        self.status, self.what = status, what


class Guard:
    """Stands before an app, which sees paths without the token, and bodies whole; all that is sent gets its headers.

    `on_bug` is told of what an app raises; the network is not.
    """

    def __init__(self, app: App, token: str, port: int, on_bug: Callable[[Exception], None]) -> None:
        self._app, self._token, self._on_bug = app, token.encode(), on_bug
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), *_FOR_ALL]
            await send(message)

        try:
            path = self._path(scope)
            receive = await self._whole_body(scope, receive)
            await self._app({**scope, "path": path, "raw_path": path.encode(errors="replace")}, receive, send_guarded)
        except _Refused as refused:
            await _say(send_guarded, refused.status, refused.what)
        except Exception as error:  # a bug of ours
            self._on_bug(error)
            if not begun:
                await _say(send_guarded, 500, BUG)

    def _path(self, scope: MutableMapping[str, Any]) -> str:
        """The path behind the token. Raises: _Refused for what does not come from a page of ours."""
        headers = _headers(scope["headers"])
        (host, *others) = headers.get(b"host") or [b""]
        if others or host.lower() not in self._hosts:
            raise _Refused(403)
        _, token, rest = [*scope["path"].split("/", 2), "", ""][:3]
        if not compare_digest(token.encode(errors="replace"), self._token) or scope["path"].count("/") < 2:
            raise _Refused(404)
        if any(origin != b"http://" + host for origin in headers.get(b"origin", ())):
            raise _Refused(403, "only attnscan's own page may ask")
        sites = set(headers.get(b"sec-fetch-site", ()))
        if not sites <= {b"same-origin", b"none"} and not _opens_a_tab(scope["method"], headers):
            raise _Refused(403, "only attnscan's own page may ask")
        if scope["method"] == "POST" and not _is_json(headers.get(b"content-type", [])):
            raise _Refused(415, "what is posted must be application/json")
        return f"/{rest}"

    async def _whole_body(self, scope: MutableMapping[str, Any], receive: Receive) -> Receive:
        """What gives the body whole, and then waits for the client to go.

        Raises: _Refused if it is too large or too slow, whatever its headers say.
        """
        if scope["method"] != "POST":
            return receive
        for length in _headers(scope["headers"]).get(b"content-length", ()):
            if not length.isdigit() or len(length) > 9 or int(length) > MOST_BODY:
                raise _TOO_LARGE
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(SECONDS):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Refused(400)
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > MOST_BODY:
                        raise _TOO_LARGE
        except TimeoutError:
            raise _Refused(408, "the question is incomplete") from None
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


_TOO_LARGE = _Refused(413, f"a question may have {MOST_BODY >> 10} KiB: shorten the input")


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        by_name.setdefault(name.lower(), []).append(value.strip())
    return by_name


def _opens_a_tab(method: str, headers: dict[bytes, list[bytes]]) -> bool:
    """Whether a person follows a link to the page itself, which another page can neither read nor frame."""
    wanted = {b"sec-fetch-mode": [b"navigate"], b"sec-fetch-dest": [b"document"]}
    return method == "GET" and all(headers.get(name) == values for name, values in wanted.items())


def _is_json(kinds: list[bytes]) -> bool:
    return len(kinds) == 1 and kinds[0].partition(b";")[0].strip().lower() == b"application/json"


async def _say(send: Send, status: int, what: str) -> None:
    body = json.dumps({"error": what}).encode() if what else b""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what is left of the request is not read
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
