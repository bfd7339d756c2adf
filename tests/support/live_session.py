"""A session over models that are stand-ins, and requests to what answers from it."""

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from httpx2 import Response
from starlette.applications import Starlette

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Change
from attnscan.server.app import app_of, listening, served
from attnscan.server.session import Loaded, Question, Session
from attnscan.studies.trial import Trial

TOKEN = "a-token-of-32-letters-that-is-one"
PORT = 8321
HOST = f"127.0.0.1:{PORT}"


@dataclass
class StandIn:
    """A model that says the same of everything, once it is let."""

    result: HeadScores
    available: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[Pair, Change]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.let = threading.Event()
        self.begun = threading.Event()
        self.let.set()

    def run(self, pair: Pair, change: Change) -> Trial:
        """As `Trials.run`. Raises: InputError for a sentence that asks for it."""
        self.calls.append((pair, change))
        self.begun.set()
        assert self.let.wait(60)
        if pair.a == "too long":
            raise InputError("the input is too long", "shorten it")
        if pair.a == "a bug":
            raise ValueError("a bug of ours, with \x1b[31m")
        if pair.a == "no memory":
            raise RuntimeError("std::bad_alloc")
        return Trial(self.result, (), self.result.kept_attention().tokens)


@contextmanager
def session_of(*models: StandIn) -> Iterator[Session]:
    """Closed afterwards."""
    loaded = [Loaded(f"model {i}", {"encoder": each}) for i, each in enumerate(models)]
    session = Session(loaded, Question(a="the first"))
    try:
        yield session
    finally:
        for model in models:
            model.let.set()
        session.worker.shutdown(wait=False, cancel_futures=True)


def body_of(**fields: Any) -> bytes:
    """What a page asks, a field changed or left out by None."""
    known = {"a": "the cat"} | fields
    return json.dumps({name: value for name, value in known.items() if value is not None}).encode()


def call(
    app: Starlette,
    path: str,
    body: bytes | None = None,
    headers: Iterable[tuple[str, str]] = (),
    host: str | None = HOST,
    method: str = "",
) -> Response:
    """What an app answers to one request in this process."""
    pieces = [body or b""]
    fields = [
        ("host", host),
        *([("content-length", str(len(body)))] if body is not None else []),
        *headers,
    ]
    scope = {
        "type": "http",
        "method": method or ("GET" if body is None else "POST"),
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in fields if value is not None],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": pieces.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    asyncio.run(run())
    content = b"".join(each.get("body", b"") for each in sent[1:])
    return Response(sent[0]["status"], headers=sent[0]["headers"], content=content)


@contextmanager
def listened(session: Session) -> Iterator[int]:
    """A real server, and its port."""
    with listening(None) as listener:
        port = listener.getsockname()[1]
        with served(app_of(session, TOKEN), listener):
            yield port


def fetched(port: int, path: str, body: bytes | None = None, **headers: str) -> Response:
    """What a real server answers behind its token."""
    kind = {} if body is None else {"Content-Type": "application/json"}
    address = f"http://127.0.0.1:{port}/{TOKEN}/{path}"
    method = "GET" if body is None else "POST"
    return httpx2.request(method, address, content=body, headers=kind | headers, timeout=60)
