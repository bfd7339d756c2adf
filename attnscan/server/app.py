"""The addresses behind the token, and what each answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from attnscan.errors import AttnscanError, MemoryFullError, out_of_memory
from attnscan.results.grid import Head
from attnscan.server.guard import BUG, App, Guard
from attnscan.server.question import Malformed, head_of, is_id, question_of
from attnscan.server.session import Gone, Session, encoded
from attnscan.server.worker import Full, Stale

_HTML, _JSON = "text/html; charset=utf-8", "application/json"


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

    async def rest(request: Request) -> Response:
        return Response(await _outcome(request, session.rest(_id(request))), media_type=_JSON)

    async def offline(request: Request) -> Response:
        saved = {"content-disposition": 'attachment; filename="attnscan.html"'}
        return Response(await _outcome(request, session.page(_id(request))), headers=saved, media_type=_HTML)

    async def corpus(request: Request) -> Response:  # noqa: ARG001
        return Response(await run_in_threadpool(session.corpus_page), media_type=_HTML)

    async def pairs(request: Request) -> Response:
        return Response(await run_in_threadpool(session.pairs, _head(request)), media_type=_JSON)

    routes = [
        Route("/", page),
        Route("/answer", answer, methods=["POST"]),
        Route("/numbers/{id}/{head}", numbers),
        Route("/rest/{id}", rest),
        Route("/page/{id}", offline),
        Route("/pairs/{head}", pairs),
    ]
    if session.corpus is not None:
        routes.append(Route("/corpus", corpus))
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


_STATUS: dict[type[Exception], int] = {Malformed: 400, Stale: 409, Gone: 410, AttnscanError: 422, Full: 503}


def _said(_request: Request, error: Exception) -> Response:
    """What the network is told of an error; a bug of ours goes on to the guard, which has it told elsewhere."""
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    flags: dict[int, dict[str, Any]] = {
        409: {"stale": True},
        410: {"gone": True},
        500: {"error": BUG},
        503: {"error": "too much is asked at once: ask again in a moment"},
    }
    said = encoded(flags.get(status, {"error": str(error)}))
    return Response(said, status, {"retry-after": "1"} if status == 503 else None, _JSON)
