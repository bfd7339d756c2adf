"""Pictures and pages: `attnscan plot`, `attnscan report`, `attnscan serve`."""

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnscan.cli import options as o
from attnscan.cli.output import say, write_stdout
from attnscan.errors import OutputError
from attnscan.results.files import check_suffix

Kind = Literal["map", "scores", "head", "layers", "profile"]
_KIND = "map: what heads do; scores, layers: their scores; head: the weights of --heads; profile: where attention goes."
_HEADS = "Include weights of these heads: 2-0,6-11, layer:2. [default: as many as fit]"
_SENTENCES = "Sentences of the treebank: 3,17 or 1-8. [default: 1-8]"
_SIZE = "Largest size of the page. [default: 2, or what --heads needs]"


def plot(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .pdf or .png."),
    ],
    a: o.A = None,
    b: o.B = None,
    kind: Annotated[Kind, o.option(_KIND)] = "map",
    heads: Annotated[
        str | None, o.option("Heads to draw: 2-0,6-11, layer:2 or all.", "HEADS")
    ] = None,
    lines: Annotated[bool, o.flag("--lines", "Draw weights as lines, for --kind head.")] = False,
    width: Annotated[float, o.option("Width of the picture.", "INCHES", min=2, max=20)] = 3.3,
    window: o.Window = None,
) -> None:
    o.call("plot", context.params)


def report(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Write the page to FILE.")
    ],
    a: o.A = None,
    b: o.B = None,
    heads: Annotated[str | None, o.option(_HEADS, "HEADS")] = None,
    no_neurons: Annotated[
        bool, o.flag("--no-neurons", "Leave out queries and keys of heads.")
    ] = False,
    size: Annotated[float | None, o.option(_SIZE, "MB", min=0.1, max=10_000)] = None,
    sentences: Annotated[str | None, o.option(_SENTENCES, "NUMBERS")] = None,
    window: o.Window = None,
    treebank: o.Treebank = None,
    held: o.Held = None,
) -> None:
    check_suffix(output, ".html", "--output")
    for note in o.call("report", context.params).notes:
        say(f"{note}; --size allows more")


def serve(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    against: Annotated[
        str | None, o.option("Also load this model, and ask it the same.", "NAME")
    ] = None,
    port: Annotated[
        int | None, o.option("Serve at this port. [default: a free one]", "N", min=1, max=65_535)
    ] = None,
    open_browser: Annotated[bool, o.flag("--open", "Open the page in a browser.")] = False,
) -> None:
    server = o.call("serve", context.params)
    with suppress(KeyboardInterrupt):
        write_stdout(f"{server.url}\n".encode())
        say(f"open this address to ask {' and '.join(server.titles)}; Ctrl-C ends it")
        if open_browser and not webbrowser.open(server.url):
            say("no browser is available: open the address by hand")
        while server.thread.is_alive():
            server.thread.join(1)  # without a time, Windows hears no Ctrl-C meanwhile
        raise OutputError("the server stopped unexpectedly", "start it again")
    server.close()
