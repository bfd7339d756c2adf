"""What `import attnscan` offers of the server: a page of this machine that answers, until it is
closed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnscan.api.open_model import LibraryCall, library_call, open_models
from attnscan.api.option_groups import SENTENCE_A, SENTENCE_B, ServeOptions
from attnscan.api.options import split_kinds
from attnscan.api.pairs_input import read_alignments, single_input
from attnscan.api.signatures import library_function
from attnscan.errors import needs
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import Pair, Text
from attnscan.scan.options import note_inputs

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


@library_function(predictive="off")
def serve(
    a: Annotated[Text | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    against: Annotated[
        Any, Option("Also load this model, and ask it the same.", metavar="NAME")
    ] = None,
    port: Annotated[
        int | None, Option("Serve at this port. [default: a free one]", least=1, most=65_535)
    ] = None,
    **options: Unpack[ServeOptions],
) -> Server:
    """A page that answers as you type, on this machine alone.

    Open the `url` of the result, and `close()` it after. It begins with one sentence or pair;
    `against` is a second model, which is asked the same. Without a `port`, any free one is taken.
    What no user can cause is logged.

    Raises: as `classify`; OutputError if the port is taken, or what serves is not installed.
    """
    for package in PACKAGES:
        with needs(f"attnscan serve needs {package}", "serve"):
            import_module(package)
    pair = Pair(*_FIRST) if a is None else Pair(a, b)
    calls = _calls(pair, against, options)
    kinds = len(split_kinds(options))
    links = options.get("alignments")
    linked = None if links is None else read_alignments(links).link_single(pair)

    from attnscan.server.app import app_of, listening, served
    from attnscan.server.session import Question, Session

    with Server() as stack:
        listener = stack.enter_context(listening(port))
        scanners = stack.enter_context(open_models([call.request for call in calls], calls[0].step))
        loaded = _by_model(scanners, kinds, linked)
        attention: Any = calls[0].options.attention if kinds > 1 else ""
        session = Session(loaded, Question(a=pair.a, b=pair.b, attention=attention))
        calls[0].progress("answering the first question", None, None)
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


def _calls(pair: Pair, against: Any, options: Mapping[str, Any]) -> list[LibraryCall]:
    """What each model is asked, of each kind of attention."""
    models: list[dict[str, Any]] = [{}]
    if against is not None:
        models.append({"model": against, "tokenizer": None})
    calls = []
    for model_options in models:
        for kind_options in split_kinds(options):
            chosen = {**kind_options, **model_options}
            inputs = single_input(*pair.sentences)
            calls.append(library_call("serve", chosen, inputs, many=False))
    return calls


def _by_model(scanners: Sequence[Scanner], kinds: int, links: Pair | None) -> list[Loaded]:
    """Group scanners by their models, which have so many kinds of attention each."""
    from attnscan.server.session import Loaded

    starts = range(0, len(scanners), kinds)
    return [Loaded.from_scanners(scanners[start : start + kinds], links) for start in starts]
