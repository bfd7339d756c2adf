"""The addresses of a live page, behind a token, for pages of this server alone.

Another page in the same browser can send requests here, and by DNS rebinding read what comes back. So each request must
name this machine as its host, know the token, and come from our page or the address bar.
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

MOST_BODY = 64 << 10
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_FOR_ALL = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def app_of(session: Session, token: str) -> Starlette:
    """Make the application that answers requests by a session. A bug of ours is logged."""

    async def work(function: Callable[..., bytes], *arguments: Any) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(
            session.worker, function, *arguments
        )

    async def page(request: Request) -> Response:
        model = request.query_params.get("model", "0")
        if model not in map(str, range(len(session.models))):
            raise HTTPException(404)
        return Response(await work(session.first_page, int(model)), media_type=_HTML)

    async def answer(request: Request) -> Response:
        length = request.headers.get("content-length", "")  # the server holds bodies to it
        if not length.isdecimal() or int(length) > MOST_BODY:
            raise HTTPException(
                413, f"a question may have {MOST_BODY >> 10} KiB: shorten the input"
            )
        question = question_of(await request.body(), len(session.models))
        return Response(await work(session.answer, question), media_type=_JSON)

    async def numbers(request: Request) -> Response:
        place = request.path_params
        return Response(await work(session.numbers, place["id"], place["head"]), media_type=_JSON)

    async def offline(request: Request) -> Response:
        saved = {"content-disposition": 'attachment; filename="attnscan.html"'}
        return Response(
            await work(session.page, request.path_params["id"]), headers=saved, media_type=_HTML
        )

    async def guard(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        try:
            ours = _is_ours(request)
            response = (
                await call_next(request)
                if ours
                else _refusal(403, "only attnscan's own page may ask")
            )
        except Exception as error:
            if out_of_memory(error):
                response = _refusal(422, "memory ran out; ask about a shorter input")
            else:
                if not isinstance(error, ClientDisconnect):
                    LOG.error("a bug of attnscan", exc_info=error)
                response = _refusal(
                    500, "attnscan failed: the terminal that started it shows the error"
                )
        response.headers.update(_FOR_ALL)
        return response

    addresses = [
        Route("/", page),
        Route("/answer", answer, methods=["POST"]),
        Route("/numbers/{id}/{head}", numbers),
        Route("/page/{id}", offline),
    ]
    return Starlette(
        routes=[Mount(f"/{token}", routes=addresses)],
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=guard),
            Middleware(
                TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False
            ),
        ],
        exception_handlers={
            HTTPException: lambda _, error: _refusal(error.status_code, error.detail),
            TooLongError: lambda _, error: _refusal(
                422, f"{error.what}: shorten it"
            ),  # there is no option to pass
            AttnscanError: lambda _, error: _refusal(422, str(error)),
        },
    )


def _is_ours(request: Request) -> bool:
    """Tell whether a request comes from a page of ours or the address bar, or opens a tab, as any link may."""
    headers = request.headers
    origins, sites = set(headers.getlist("origin")), set(headers.getlist("sec-fetch-site"))
    mode = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    opens_a_tab = request.method == "GET" and mode == ("navigate", "document")
    return origins <= {f"http://{headers.get('host')}"} and (
        sites <= {"same-origin", "none"} or opens_a_tab
    )


def _refusal(status: int, reason: str) -> Response:
    """A refusal as JSON. What is left of the request is not read."""
    return Response(encoded({"error": reason}), status, {"connection": "close"}, _JSON)


def listening(port: int | None) -> socket.socket:
    """A socket on this machine's own address, at a port or at any that is free. Raises: OutputError if it is taken."""
    try:
        return socket.create_server(("127.0.0.1", port or 0))
    except OSError as error:
        reason = (
            "is in use"
            if error.errno == errno.EADDRINUSE
            else f"cannot be served: {error.strerror or error}"
        )
        raise OutputError(
            f"port {port} {reason}", "choose another, or leave out --port for a free one"
        ) from None


@contextmanager
def served(app: Starlette, listener: socket.socket) -> Iterator[threading.Thread]:
    """Serve, in a thread of its own, which ends with its connections."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what strangers send is no news
    settings: Any = {
        "lifespan": "off",
        "log_config": None,
        "server_header": False,
        "timeout_graceful_shutdown": 0,
    }
    server = uvicorn.Server(
        uvicorn.Config(app, **settings, limit_concurrency=64)
    )  # beyond, 503, and a page asks again
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
        server.should_exit = server.force_exit = True
        ended.wait(
            5
        )  # Python 3.11 takes a thread for ended once Ctrl-C has come while it was joined
