"""What a live page asks, and who may: addresses behind a token, for pages of this server alone.

Another page in the same browser can send requests here, and by DNS rebinding read what comes back. So each request must
name this machine as its host, know the token, and come from our page or the address bar; what is posted must be JSON,
which a browser lets no other page post.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from secrets import compare_digest
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from attnscan.errors import AttnscanError, MemoryFullError, OutputError, TooLongError, out_of_memory
from attnscan.server.question import Malformed, head_of, question_of
from attnscan.server.session import Gone, Session, encoded

MOST_BODY = 64 << 10
MOST_CONNECTIONS = 64  # beyond, uvicorn answers 503, and a page asks again
SECONDS = 10.0  # for a whole body
_BUG = "attnscan failed: the terminal that started it shows the error"
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_PATIENCE = 0.3  # seconds for connections when the server is to end
_FOR_ALL = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def app_of(session: Session, token: str, on_bug: Callable[[Exception], None]) -> Starlette:
    """What answers requests by a session. `on_bug` is told of a bug of ours, in the server's thread."""

    async def page(request: Request) -> Response:
        model = request.query_params.get("model", "0")
        if model not in map(str, range(len(session.models))):
            raise HTTPException(404)
        return Response(await _outcome(session.page_of_first(int(model))), media_type=_HTML)

    async def answer(request: Request) -> Response:
        question = question_of(await _body(request), len(session.models))
        return Response(await _outcome(session.answer(question)), media_type=_JSON)

    def numbers(request: Request) -> Response:
        if (head := head_of(request.path_params["head"])) is None:
            raise HTTPException(404)
        return Response(session.numbers(request.path_params["id"], head), media_type=_JSON)

    async def offline(request: Request) -> Response:
        saved = {"content-disposition": 'attachment; filename="attnscan.html"'}
        return Response(await _outcome(session.page(request.path_params["id"])), headers=saved, media_type=_HTML)

    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refusal = _refusal(request, token)
        try:
            response = await call_next(request) if refusal is None else _told(refusal)
        except Exception as error:
            if not isinstance(error, ClientDisconnect):
                on_bug(error)
            response = _told(HTTPException(500, _BUG))
        response.headers.update(_FOR_ALL)
        return response

    return Starlette(
        routes=[
            Route("/{token}/", page),
            Route("/{token}/answer", answer, methods=["POST"]),
            Route("/{token}/numbers/{id}/{head}", numbers),
            Route("/{token}/page/{id}", offline),
        ],
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=guard),
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False),
        ],
        exception_handlers={
            HTTPException: lambda _, error: _told(error),
            Malformed: lambda _, error: _told(HTTPException(400, str(error))),
            Gone: lambda *_: _told(HTTPException(410, "this answer is not held any more")),
            AttnscanError: lambda _, error: _told(HTTPException(422, _line(error))),
        },
    )


def _refusal(request: Request, token: str) -> HTTPException | None:
    """Why a request does not come from a page of ours; None if it does."""
    if not compare_digest(request.url.path.split("/")[1].encode(errors="replace"), token.encode()):
        return HTTPException(404)
    headers, own = request.headers, {f"http://{request.headers.get('host')}"}
    sites = set(headers.getlist("sec-fetch-site"))
    if not set(headers.getlist("origin")) <= own or not (sites <= {"same-origin", "none"} or _opens_a_tab(request)):
        return HTTPException(403, "only attnscan's own page may ask")
    if request.method == "POST" and headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        return HTTPException(415, "what is posted must be application/json")
    return None


def _opens_a_tab(request: Request) -> bool:
    """Whether a person follows a link to the page itself, which another page can neither read nor frame."""
    mode, destination = (request.headers.getlist(f"sec-fetch-{name}") for name in ("mode", "dest"))
    return request.method == "GET" and (mode, destination) == (["navigate"], ["document"])


async def _body(request: Request) -> bytes:
    """What is posted. Raises: HTTPException if it is too large or too slow."""
    body = b""
    try:
        async with asyncio.timeout(SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BODY:
                    raise HTTPException(413, f"a question may have {MOST_BODY >> 10} KiB: shorten the input")
    except TimeoutError:
        raise HTTPException(408, "the question is incomplete") from None
    return body


async def _outcome(future: Future[bytes]) -> bytes:
    """What comes of some work. Raises: what the work does; MemoryFullError where memory ran out."""
    try:
        return await asyncio.wrap_future(future)
    except Exception as error:
        if not isinstance(error, AttnscanError) and out_of_memory(error):
            raise MemoryFullError("memory ran out", "ask about a shorter input") from None
        raise


def _line(error: Exception) -> str:
    """What a page shows of an error; there is no option to pass."""
    return f"{error.what}: shorten it" if isinstance(error, TooLongError) else str(error)


def _told(error: Any) -> Response:
    """An HTTPException as JSON. What is left of the request is not read."""
    return Response(encoded({"error": error.detail}), error.status_code, {"connection": "close"}, _JSON)


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
def served(app: Starlette, own: socket.socket) -> Iterator[threading.Event]:
    """Serve, in a thread of its own; at the end connections are closed, whatever they wait for.

    Yields what is set if the thread ends by itself. On a busy machine it may end later than this does: what it closes
    is a socket of its own.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what strangers send is no news
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
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
