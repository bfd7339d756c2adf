"""What is refused before anything else sees it, the addresses behind the token, and the thread that serves them.

Another page in the same browser can send requests here, and by DNS rebinding read what comes back. So each request must
name this server as its host, know the token, and come from our page or the address bar; what is posted must be JSON.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import contextmanager
from secrets import compare_digest
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from attnscan.errors import AttnscanError, MemoryFullError, OutputError, TooLongError, out_of_memory
from attnscan.results.grid import Head
from attnscan.server.question import Malformed, head_of, is_id, question_of
from attnscan.server.session import Gone, Session, encoded
from attnscan.server.worker import Full, Stale

MOST_BODY = 64 << 10
_BUG = "attnscan failed: the terminal that started it shows the error"
SECONDS = 10.0  # for a whole body
_FOR_ALL = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], _Receive, _Send], Awaitable[None]]


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

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def send_guarded(message: _Message) -> None:
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
                await _say(send_guarded, 500, _BUG)

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

    async def _whole_body(self, scope: MutableMapping[str, Any], receive: _Receive) -> _Receive:
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
        whole: list[_Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> _Message:
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


async def _say(send: _Send, status: int, what: str) -> None:
    body = json.dumps({"error": what}).encode() if what else b""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what is left of the request is not read
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_PATIENCE = 0.3  # seconds for connections when the server is to end


def app_of(session: Session, token: str, port: int, on_bug: Callable[[Exception], None]) -> App:
    """What answers requests to one port by a session. `on_bug` is told of a bug of ours, in the server's thread."""

    async def page(request: Request) -> Response:
        model = request.query_params.get("model", "0")
        if model not in map(str, range(len(session.models))):
            raise HTTPException(404)
        return Response(await _outcome(request, session.page_of_first(int(model))), media_type=_HTML)

    async def answer(request: Request) -> Response:
        question = question_of(await request.body(), len(session.models))
        return Response(await _outcome(request, session.answer(question)), media_type=_JSON)

    async def numbers(request: Request) -> Response:
        outcome = await run_in_threadpool(session.numbers, _id(request), _head(request))
        return Response(outcome, media_type=_JSON)

    async def offline(request: Request) -> Response:
        saved = {"content-disposition": 'attachment; filename="attnscan.html"'}
        return Response(await _outcome(request, session.page(_id(request))), headers=saved, media_type=_HTML)

    routes = [
        Route("/", page),
        Route("/answer", answer, methods=["POST"]),
        Route("/numbers/{id}/{head}", numbers),
        Route("/page/{id}", offline),
    ]
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys([*_STATUS, Exception], _said))
    app.router.redirect_slashes = False
    return Guard(app, token, port, on_bug)


async def _outcome(request: Request, future: Future[bytes]) -> bytes:
    """What comes of some work; it is called off if the client goes away before it has begun."""
    outcome, gone = asyncio.wrap_future(future), asyncio.ensure_future(_gone(request))
    either: set[asyncio.Future[Any]] = {outcome, gone}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not outcome.done():
            raise Gone
        return outcome.result()
    except Exception as error:
        if not isinstance(error, AttnscanError) and out_of_memory(error):
            raise MemoryFullError("memory ran out", "ask about a shorter input") from None
        raise
    finally:
        outcome.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _id(request: Request) -> str:
    if not is_id(name := request.path_params["id"]):
        raise HTTPException(404)
    return str(name)


def _head(request: Request) -> Head:
    if (head := head_of(request.path_params["head"])) is None:
        raise HTTPException(404)
    return head


_STATUS: dict[type[Exception], int] = {Stale: 202, Malformed: 400, Gone: 410, AttnscanError: 422, Full: 503}


def _said(_request: Request, error: Exception) -> Response:
    """What the network is told of an error; a bug of ours goes on to the guard, which has it told elsewhere."""
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    flags: dict[int, dict[str, Any]] = {
        202: {"stale": True},  # a question that another one replaces is no error, and browsers report those
        410: {"gone": True},
        500: {"error": _BUG},
        503: {"error": "too many questions at once: ask again in a moment"},
    }
    what = f"{error.what}: shorten it" if isinstance(error, TooLongError) else str(error)  # there is nothing to pass
    said = encoded(flags.get(status, {"error": what}))
    return Response(said, status, {"retry-after": "1"} if status == 503 else None, _JSON)


def listening(port: int | None) -> socket.socket:
    """A socket on this machine's own address, at a port or at any that is free. Raises: OutputError if it is taken."""
    own = socket.socket()
    try:
        if os.name == "posix":  # else a port could not be had again for a minute; elsewhere it means something worse
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(("127.0.0.1", port or 0))
        own.listen(128)
    except OSError as error:
        own.close()
        remedy = "choose another, or leave out --port for a free one"
        if error.errno in (errno.EACCES, errno.EPERM):
            raise OutputError(f"port {port} is reserved for the system", remedy) from None
        if error.errno == errno.EADDRINUSE:
            raise OutputError(f"port {port} is in use", remedy) from None
        raise OutputError(f"nothing can be served here: {error.strerror or error}", remedy) from None
    return own


@contextmanager
def served(app: App, own: socket.socket) -> Iterator[threading.Event]:
    """Serve, in a thread of its own; at the end connections are closed, whatever they wait for.

    Yields what is set if the thread ends by itself. On a busy machine it may end later than this does: what it closes
    is a socket of its own.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what strangers send is no news
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=16 << 10,
        timeout_graceful_shutdown=0,
    )
    server, bound, ended = uvicorn.Server(config), own.dup(), threading.Event()

    def run() -> None:
        try:
            server.run([bound])
        finally:
            bound.close()
            ended.set()

    threading.Thread(target=run, daemon=True, name="attnscan-server").start()
    try:
        yield ended
    finally:
        server.should_exit = server.force_exit = True
        ended.wait(_PATIENCE)


class _Protocol(H11Protocol):
    """Closes a connection that has begun no request between two looks at it: uvicorn waits for one for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self.loop.call_later(SECONDS, self._look, None)

    def _look(self, before: Any) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(SECONDS, self._look, self.cycle)
