"""The addresses of a live page, behind a token, for pages of this server alone.

Another page in the same browser can send requests here, and by DNS rebinding read what comes back.
So each request must name this machine as its host, know the token, and come from our page or the
address bar.
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from attnscan.errors import AttnscanError, OutputError, TooLongError, out_of_memory
from attnscan.scan.options import LOG
from attnscan.server.session import Session, encoded, question_of

MAX_BODY = 64 << 10
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def app_of(session: Session, token: str) -> Starlette:
    """Make the application that answers requests by a session. A bug of ours is logged."""
    addresses = [
        *_pages(session),
        *_answers(session),
    ]
    return Starlette(
        routes=[Mount(f"/{token}", routes=addresses)],
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=_guard),
            Middleware(
                TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False
            ),
        ],
        exception_handlers={
            HTTPException: _refuse_request,
            TooLongError: _refuse_long_input,
            AttnscanError: _refuse_input,
        },
    )


async def _work(session: Session, function: Callable[..., bytes], *arguments: Any) -> bytes:
    """Run a function in the thread that runs models."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(session.worker, function, *arguments)


def _pages(session: Session) -> list[Route]:
    """The addresses of pages: the live one, and the offline one of an answer."""

    async def live(request: Request) -> Response:
        model = request.query_params.get("model", "0")
        if model not in map(str, range(len(session.models))):
            raise HTTPException(404)
        html = await _work(session, session.first_page, int(model))
        return Response(html, media_type=_HTML)

    async def offline(request: Request) -> Response:
        html = await _work(session, session.page, request.path_params["id"])
        saved = {"content-disposition": 'attachment; filename="attnscan.html"'}
        return Response(html, headers=saved, media_type=_HTML)

    return [Route("/", live), Route("/page/{id}", offline)]


def _answers(session: Session) -> list[Route]:
    """The addresses of what a live page asks for: answers, and the numbers of a head."""

    async def answer(request: Request) -> Response:
        length = request.headers.get("content-length", "")  # the server holds bodies to it
        if not length.isdecimal() or int(length) > MAX_BODY:
            most = MAX_BODY >> 10
            raise HTTPException(413, f"a question may have {most} KiB: shorten the input")
        question = question_of(await request.body(), len(session.models))
        return Response(await _work(session, session.answer, question), media_type=_JSON)

    async def numbers(request: Request) -> Response:
        answer_id = request.path_params["id"]
        head = request.path_params["head"]
        return Response(await _work(session, session.numbers, answer_id, head), media_type=_JSON)

    return [Route("/answer", answer, methods=["POST"]), Route("/numbers/{id}/{head}", numbers)]


async def _guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Answer requests of our own pages alone, with headers that keep other pages away."""
    response = await _answer_ours(request, call_next)
    response.headers.update(_HEADERS)
    return response


async def _answer_ours(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    if not _is_ours(request):
        return _refusal(403, "only attnscan's own page may ask")
    try:
        return await call_next(request)
    except Exception as error:
        if out_of_memory(error):
            return _refusal(422, "memory ran out; ask about a shorter input")
        if not isinstance(error, ClientDisconnect):
            LOG.error("a bug of attnscan", exc_info=error)
        return _refusal(500, "attnscan failed: the terminal that started it shows the error")


def _is_ours(request: Request) -> bool:
    """Tell whether a request comes from a page of ours or the address bar.

    A request that opens a tab may come from anywhere, as any link may.
    """
    headers = request.headers
    origins = set(headers.getlist("origin"))
    if not origins <= {f"http://{headers.get('host')}"}:
        return False
    sites = set(headers.getlist("sec-fetch-site"))
    if sites <= {"same-origin", "none"}:
        return True
    return (
        request.method == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def _refuse_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _refusal(error.status_code, error.detail)


def _refuse_long_input(_: Request, error: Exception) -> Response:
    """Say what a page can do about it: there is no option to pass here."""
    assert isinstance(error, TooLongError)
    return _refusal(422, f"{error.what}: shorten it")


def _refuse_input(_: Request, error: Exception) -> Response:
    return _refusal(422, str(error))


def _refusal(status: int, reason: str) -> Response:
    """A refusal as JSON. What is left of the request is not read."""
    return Response(encoded({"error": reason}), status, {"connection": "close"}, _JSON)


def listening(port: int | None) -> socket.socket:
    """A socket on this machine's own address, at a port or at any that is free.

    Raises: OutputError if the port is taken.
    """
    try:
        return socket.create_server(("127.0.0.1", port or 0))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "is in use"
        else:
            reason = f"cannot be served: {error.strerror or error}"
        raise OutputError(
            f"port {port} {reason}", "choose another, or leave out ``port`` for a free one"
        ) from None


@contextmanager
def served(app: Starlette, listener: socket.socket) -> Iterator[threading.Thread]:
    """Serve, in a thread of its own, which ends with its connections."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what strangers send is no news
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=0,
        limit_concurrency=64,  # beyond, 503, and a page asks again
    )
    server = uvicorn.Server(config)
    ended = threading.Event()

    def run() -> None:
        try:
            server.run([listener])
        finally:
            ended.set()

    thread = threading.Thread(target=run, daemon=True, name="attnscan-server")
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        server.force_exit = True
        # not `join`: Python 3.11 takes a thread for ended once Ctrl-C has come while it was joined
        ended.wait(5)
