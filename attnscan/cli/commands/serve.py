"""The command `attnscan serve`."""

from __future__ import annotations

import sys
import traceback
import webbrowser
from contextlib import ExitStack, suppress
from importlib import import_module
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.messages import running, say
from attnscan.cli.output import write_stdout
from attnscan.errors import OutputError, needs
from attnscan.inputs.library_calls import distrust

if TYPE_CHECKING:
    from socket import socket
    from threading import Event

    from attnscan.results.terms import AttentionName
    from attnscan.server.session import Session

EXAMPLES = (
    "attnscan serve --open",
    'attnscan serve "The cat sat on the mat." --against bundled',
)
_FIRST = "I went to the store.", "At the store, I bought fresh strawberries."


def serve(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            autocompletion=o.complete_models,
            help="Also load this model, and ask it the same.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=1, max=65_535, help="Serve at this port. [default: a free one]"),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    given = context.params
    for package in ("pydantic", "starlette", "uvicorn"):
        with needs(f"attnscan serve needs {package}", "serve"):
            import_module(package)
    if sys.stdout is None:  # the shell's `>&-`
        raise OutputError("standard output is closed", "leave it open: the address is printed there")
    from attnscan.api.arguments import KINDS, SCAN, of_kind, opened_all, scan_options
    from attnscan.api.pairs import linked
    from attnscan.inputs.sentence import Pair
    from attnscan.scan.options import note_inputs

    pair = Pair(*_FIRST) if a is None else Pair(a, b)
    options = {"predictive": "off", **{name: given[name] for name in SCAN["serve"] if given.get(name) is not None}}
    options |= {"related": False} if given["no_related"] else {}
    names, links = [given["model"], *([against] if against else [])], given["alignments"]
    every = given["attention"] == "all"
    kinds: list[AttentionName] = list(KINDS) if every else [given["attention"] or "encoder"]
    wanted = []
    for name in names:
        for kind in kinds:
            own, of_kind_alone = (
                (of_kind(kind, options), None if kind != "cross" else links) if every else (options, links)
            )
            wanted.append(scan_options(name, own, many=False, alignments=of_kind_alone)[1])
    paired = None if links is None else linked(pair, links)
    from attnscan.server.app import listening

    models = [name for name in names for _ in kinds]
    with listening(port) as own_socket, ExitStack() as stack:
        with running() as progress:
            scanners = stack.enter_context(opened_all(wanted, models, [None] * len(wanted), progress))
            from attnscan.server.question import Question
            from attnscan.server.session import Loaded, Session

            several = len(kinds)
            loaded = [Loaded.of(*scanners[i : i + several], links=paired) for i in range(0, len(scanners), several)]
            session = Session(loaded, Question(pair, attention=kinds[0] if several > 1 else ""))
            progress("answering the first question", None, None)
            note_inputs(session.signatures(), length=scanners[0].loaded.limit, dtype=wanted[0].dtype)
        _serve(session, own_socket, open_browser=open_browser)


def _serve(session: Session, own: socket, *, open_browser: bool) -> None:
    """Say where, and serve until Ctrl-C, which is how a server ends."""
    from attnscan.server.app import app_of, served

    port, token = own.getsockname()[1], token_urlsafe(24)
    with suppress(KeyboardInterrupt), served(app_of(session, token, _say_bug), own) as ended:
        write_stdout((url := f"http://127.0.0.1:{port}/{token}/\n").encode())
        say(f"open this address to ask {' and '.join(model.title for model in session.models)}; Ctrl-C ends it")
        if open_browser and not webbrowser.open(url.strip()):
            say("no browser is available: open the address by hand")
        wait_for(ended)
    session.close()
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
