"""What `import attnscan` offers of the server: a page of this machine that answers, until it is
closed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from attnscan.api.arguments import LibraryCall, open_models, read_alignments, split_kinds
from attnscan.errors import needs
from attnscan.inputs.sentence import Pair, Text
from attnscan.scan.options import OnProgress, note_inputs, progress_of

if TYPE_CHECKING:
    from attnscan.scan.scanner import Scanner
    from attnscan.server.session import Loaded

_FIRST = ("I went to the store.", "At the store, I bought fresh strawberries.")
PACKAGES = ("pydantic", "starlette", "uvicorn")


class Server(ExitStack):
    """A page that answers at `url`, in a thread, until it is closed; `titles` name its models."""

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
    """A page that answers as you type, on this machine alone: open the `url` of the result, and
    `close()` it after.

    It begins with one sentence or pair; `against` is a second model, which is asked the same.
    Without a `port`, any free one is taken. What no user can cause is logged.

    Raises: as `classify`; OutputError if the port is taken, or what serves is not installed.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    for package in PACKAGES:
        with needs(f"attnscan serve needs {package}", "serve"):
            import_module(package)
    pair = Pair(*_FIRST) if a is None else Pair(a, b)
    kinds = split_kinds({"predictive": "off", **options})
    models: list[dict[str, Any]] = [{}]
    if against is not None:
        models.append({"model": against, "tokenizer": None})
    calls = []
    for model_options in models:
        for kind_options in kinds:
            call_options = {**kind_options, **model_options}
            calls.append(LibraryCall("serve", call_options, pair.a, pair.b, many=False))
    links = options.get("alignments")
    linked = None if links is None else read_alignments(links).link_single(pair)

    from attnscan.server.app import app_of, listening, served
    from attnscan.server.session import Question, Session

    with Server() as stack:
        listener = stack.enter_context(listening(port))
        scanners = stack.enter_context(open_models(*calls))
        loaded = _by_model(scanners, len(kinds), linked)
        attention: Any = calls[0].options.attention if len(kinds) > 1 else ""
        session = Session(loaded, Question(a=pair.a, b=pair.b, attention=attention))
        progress_of(progress)("answering the first question", None, None)
        signatures = []
        for number in range(len(loaded)):
            trial = session.trial(session.first_of(number))
            signatures.append(trial.result.signature)
        note_inputs(signatures, length=scanners[0].loaded.limit, dtype=calls[0].options.dtype)
        stack.callback(session.worker.shutdown, wait=False, cancel_futures=True)
        token = token_urlsafe(24)
        thread = stack.enter_context(served(app_of(session, token), listener))
        server = stack.pop_all()
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/"
        server.titles = tuple(model.title for model in session.models)
        server.thread = thread
        return server


def _by_model(scanners: Sequence[Scanner], kinds: int, links: Pair | None) -> list[Loaded]:
    """Group scanners by their models, which have so many kinds of attention each."""
    from attnscan.server.session import Loaded

    starts = range(0, len(scanners), kinds)
    return [Loaded.from_scanners(scanners[start : start + kinds], links) for start in starts]
