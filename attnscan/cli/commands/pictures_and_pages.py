"""Pictures and pages: `attnscan plot`, `attnscan report`, `attnscan serve`."""

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnscan.cli.calls import call
from attnscan.cli.options import flag, option
from attnscan.cli.output import say, write_stdout
from attnscan.errors import OutputError
from attnscan.results.files import check_suffix

PlotKind = Literal["map", "scores", "head", "layers", "profile"]
_KIND = (
    "map: what heads do; scores, layers: their scores; head: the weights of --heads; "
    "profile: where attention goes."
)


def plot(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .pdf or .png."),
    ],
    kind: Annotated[PlotKind, option(_KIND)] = "map",
) -> None:
    call("plot", context.params)


def report(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Write the page to FILE.")
    ],
) -> None:
    check_suffix(output, ".html", "--output")
    for note in call("report", context.params).notes:
        say(f"{note}; --size allows more")


def serve(
    context: typer.Context,
    open_browser: Annotated[bool, flag("--open", "Open the page in a browser.")] = False,
) -> None:
    server = call("serve", context.params)
    with suppress(KeyboardInterrupt):
        say(f"open this address to ask {' and '.join(server.titles)}; Ctrl-C ends it")
        write_stdout(f"{server.url}\n".encode())  # last: who reads it may send Ctrl-C at once
        if open_browser and not webbrowser.open(server.url):
            say("no browser is available: open the address by hand")
        while server.thread.is_alive():
            server.thread.join(1)  # without a time, Windows hears no Ctrl-C meanwhile
        raise OutputError("the server stopped unexpectedly", "start it again")
    server.close()
