"""The command `attnscan serve`."""

from __future__ import annotations

import sys
import traceback
import webbrowser
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib import import_module
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import done, working
from attnscan.cli.bundles import Without, complete_models, flattened
from attnscan.cli.destination import write_stdout
from attnscan.cli.messages import say
from attnscan.cli.options import Model, OfAttention, OnLongOption, SentenceA, SentenceB, on_long_of
from attnscan.errors import OutputError, needs
from attnscan.inputs.library_calls import distrust
from attnscan.run.running import Running, notes_of_inputs, opened_all
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from socket import socket
    from threading import Event

    from attnscan.server.session import Session

EXAMPLES = (
    "attnscan serve --open",
    'attnscan serve "The cat sat on the mat." --against bundled',
)
_FIRST = "I went to the store.", "At the store, I bought fresh strawberries."


@flattened
def serve(
    *,
    a: SentenceA = None,
    b: SentenceB = None,
    model: Model = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            autocompletion=complete_models,
            help="Also load this model, and ask it the same.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=1, max=65_535, help="Serve at this port. [default: a free one]"),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    on_long: OnLongOption = None,
    of: OfAttention,
    scan: Annotated[ScanOptions, Without("model")] = ScanOptions(predictive="off"),
) -> None:
    of = of.resolved()
    for package in ("pydantic", "starlette", "uvicorn"):
        with needs(f"attnscan serve needs {package}", "serve"):
            import_module(package)
    if sys.stdout is None:  # the shell's `>&-`
        raise OutputError("standard output is closed", "leave it open: the address is printed there")
    from attnscan.inputs.sentence import Pair

    pair = Pair(*_FIRST) if a is None else Pair(a, b)
    links = of.pair(pair, "cross") if of.alignments is not None else None
    names = (model, *([against] if against else []))
    asked = [replace(scan, model=name, on_long=on_long_of(on_long, many=False)) for name in names]
    wanted = [of.options(options, kind, None)[1] for options in asked for kind in of.kinds]
    from attnscan.server.app import listening

    with ExitStack() as stack:
        own = stack.enter_context(listening(port))
        scanners = done(opened_all(Running(stack=stack), wanted, [None] * len(wanted)))
        from attnscan.server.question import Question
        from attnscan.server.session import Loaded, Session

        several = len(of.kinds)
        models = [Loaded.of(*scanners[i : i + several], links=links) for i in range(0, len(scanners), several)]
        first = Question(pair, attention=of.kinds[0] if several > 1 else "")
        session = Session(models, first)
        with working("answering the first question"):
            signatures = session.signatures()
        for note in notes_of_inputs(*signatures, length=scanners[0].loaded.limit, dtype=scan.dtype):
            say(note.text)
        _serve(session, own, open_browser=open_browser)


def _serve(session: Session, own: socket, *, open_browser: bool) -> None:
    """Say where, and serve until Ctrl-C, which is how a server ends."""
    from attnscan.server.app import app_of, served

    port, token = own.getsockname()[1], token_urlsafe(24)
    with suppress(KeyboardInterrupt), served(app_of(session, token, port, _say_bug), own) as ended:
        write_stdout((url := f"http://127.0.0.1:{port}/{token}/\n").encode())
        say(f"open this address to ask {' and '.join(model.title for model in session.models)}; Ctrl-C ends it")
        if open_browser and not webbrowser.open(url.strip()):
            say("no browser is available: open the address by hand")
        wait_for(ended)
    session.worker.close()
    distrust("the server")  # the process ends at once, whatever a model or a browser is at


def wait_for(ended: Event) -> None:
    """Wait for a server's end, which Ctrl-C comes before. Raises: OutputError if it ends by itself."""
    while not ended.wait(1):  # without a time, Windows hears no Ctrl-C meanwhile
        pass
    raise OutputError("the server stopped unexpectedly", "start it again")


def _say_bug(error: Exception) -> None:
    """A bug of ours, for a report: the lines of its traceback, with what a terminal would obey made visible."""
    for line in "".join(traceback.format_exception(error)).splitlines():
        say(line)
