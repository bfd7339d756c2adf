"""What `import attnscan` offers of the server: a page of this machine that answers, until it is closed."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from importlib import import_module
from secrets import token_urlsafe
from typing import Any

from attnscan.api.arguments import LibraryCall, open_models, read_alignments, split_kinds
from attnscan.errors import needs
from attnscan.inputs.sentence import Pair, Text
from attnscan.scan.options import OnProgress, note_inputs, progress_of

_FIRST = "I went to the store.", "At the store, I bought fresh strawberries."
PACKAGES = ("pydantic", "starlette", "uvicorn")


class Server(ExitStack):
    """A page that answers at `url`, in a thread, for the models of the `titles`, until it is closed."""

    url: str
    titles: tuple[str, ...]
    thread: threading.Thread


def serve(
    a: Text | None = None,
    b: Text | None = None,
    *,
    against: Any = None,
    port: int | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Server:
    """A page that answers as you type, on this machine alone: open the `url` of the result, and `close()` it after.

    It begins with one sentence or pair; `against` is a second model, which is asked the same. Without a `port`, any
    free one is taken. What no user can cause is logged.

    Raises: as `classify`; OutputError if the port is taken, or what serves is not installed.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    for package in PACKAGES:
        with needs(f"attnscan serve needs {package}", "serve"):
            import_module(package)
    pair, links = Pair(*(_FIRST if a is None else (a, b))), options.get("alignments")
    texts: list[Any] = list(pair.sentences)
    models: list[dict[str, Any]] = [
        {},
        *([{"model": against, "tokenizer": None}] if against is not None else []),
    ]
    kinds = split_kinds({"predictive": "off", **options})
    calls = [
        LibraryCall("serve", {**kind, **model}, *texts, many=False)
        for model in models
        for kind in kinds
    ]
    paired = None if links is None else read_alignments(links).link_single(pair)
    from attnscan.server.app import app_of, listening, served

    with Server() as stack:
        listener = stack.enter_context(listening(port))
        scanners = stack.enter_context(open_models(*calls))
        from attnscan.server.session import Loaded, Question, Session

        several = len(kinds)
        loaded = [
            Loaded.of(*scanners[i : i + several], links=paired)
            for i in range(0, len(scanners), several)
        ]
        attention: Any = calls[0].options.attention if several > 1 else ""
        session = Session(loaded, Question(a=pair.a, b=pair.b, attention=attention))
        progress_of(options.get("progress"))("answering the first question", None, None)
        signatures = [
            session.trial(session.first_of(number)).result.signature
            for number in range(len(loaded))
        ]
        note_inputs(signatures, length=scanners[0].loaded.limit, dtype=calls[0].options.dtype)
        stack.callback(session.worker.shutdown, wait=False, cancel_futures=True)
        token = token_urlsafe(24)
        thread = stack.enter_context(served(app_of(session, token), listener))
        server = stack.pop_all()
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/"
        server.titles, server.thread = tuple(model.title for model in session.models), thread
        return server
