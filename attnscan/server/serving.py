"""What `import attnscan` offers of the server: a page of this machine that answers, until it is closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from attnscan.api.arguments import KINDS, of_kind, opened_all, reading_of, scan_options
from attnscan.api.pairs import Links, check_no_reading, linked
from attnscan.errors import needs
from attnscan.inputs.frames import pair_of
from attnscan.inputs.sentence import Text
from attnscan.scan.options import LOG, OnProgress, note_inputs, progress_of

if TYPE_CHECKING:
    from attnscan.model.in_memory import Model, Tokenizer
    from attnscan.results.terms import AttentionName

_FIRST = "I went to the store.", "At the store, I bought fresh strawberries."
PACKAGES = ("pydantic", "starlette", "uvicorn")


class Server:
    """A page that answers at `url`, in a thread, for the models of the `titles`; close it, or use it in a `with`."""

    def __init__(self, url: str, titles: tuple[str, ...], ended: threading.Event, at_end: ExitStack) -> None:
        self.url, self.titles, self.ended, self._at_end = url, titles, ended, at_end

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, whatever a model or a browser is at."""
        self._at_end.close()


def serve(
    a: Text | None = None,
    b: Text | None = None,
    *,
    against: Model = None,
    port: int | None = None,
    alignments: Links = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    on_bug: Callable[[Exception], None] | None = None,
    **options: Any,
) -> Server:
    """A page that answers as you type, on this machine alone: open the `url` of the result, and `close()` it after.

    It begins with one sentence or pair; `against` is a second model, which is asked the same. Without a `port`, any
    free one is taken. `on_bug` is given what no user can cause; by default it is logged.

    Raises: as `classify`; OutputError if the port is taken, or what serves is not installed.
    """
    for package in PACKAGES:
        with needs(f"attnscan serve needs {package}", "serve"):
            import_module(package)
    check_no_reading(reading_of("serve", options))
    options, step = {"predictive": "off", **options}, progress_of(progress)
    pair = pair_of(*(_FIRST if a is None else (a, b)))
    everything = options.get("attention") == "all"
    kinds: list[AttentionName] = list(KINDS) if everything else [options.get("attention") or "encoder"]
    models = [(model, tokenizer), *([(against, None)] if against is not None else [])]
    wanted = []
    for named, _ in models:
        for kind in kinds:
            own = of_kind(kind, options) if everything else options
            links = alignments if kind == "cross" or not everything else None
            wanted.append(scan_options(named, own, many=False, alignments=links)[1])
    paired = None if alignments is None else linked(pair, alignments)
    from attnscan.server.app import app_of, listening, served

    with ExitStack() as stack:
        own_socket = stack.enter_context(listening(port))
        given = [(held, named) for held, named in models for _ in kinds]
        held_models, tokenizers = [held for held, _ in given], [named for _, named in given]
        scanners = stack.enter_context(opened_all(wanted, held_models, tokenizers, step))
        from attnscan.server.question import Question
        from attnscan.server.session import Loaded, Session

        several = len(kinds)
        loaded = [Loaded.of(*scanners[i : i + several], links=paired) for i in range(0, len(scanners), several)]
        session = Session(loaded, Question(pair, attention=kinds[0] if several > 1 else ""))
        step("answering the first question", None, None)
        note_inputs(session.signatures(), length=scanners[0].loaded.limit, dtype=wanted[0].dtype)
        url = f"http://127.0.0.1:{own_socket.getsockname()[1]}/{(token := token_urlsafe(24))}/"
        stack.callback(session.close)
        ended = stack.enter_context(served(app_of(session, token, on_bug or _log), own_socket))
        return Server(url, tuple(held.title for held in session.models), ended, stack.pop_all())


def _log(error: Exception) -> None:
    LOG.log(logging.ERROR, "a bug of attnscan", exc_info=error)
