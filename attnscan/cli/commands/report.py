"""The command `attnscan report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.messages import say
from attnscan.cli.output import Output, write_stdout
from attnscan.results.files import check_writable, is_stream, write_file

EXAMPLES = (
    'attnscan report "The cat sat on the mat." -o page.html',
    "attnscan report --predictive off -o page.html",
)


def report(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Write the page to FILE; - is stdout.")
    ],
    a: o.A = None,
    b: o.B = None,
    heads: Annotated[
        str | None, o.heads_option("Include weights of these heads: 2-0,6-11, layer:2. [default: as many as fit]")
    ] = None,
    no_neurons: Annotated[bool, typer.Option("--no-neurons", help="Leave out queries and keys of heads.")] = False,
    size: Annotated[
        float | None,
        typer.Option(
            "--size",
            metavar="MB",
            min=0.1,
            max=10_000,
            help="Largest size of the page. [default: 2, or what --heads needs]",
        ),
    ] = None,
    sentences: Annotated[
        str | None,
        typer.Option("--sentences", metavar="NUMBERS", help="Sentences of the treebank: 3,17 or 1-8. [default: 1-8]"),
    ] = None,
    window: o.Window = None,
    treebank: o.Treebank = None,
) -> None:
    given, to_stdout = context.params, str(output) == "-"
    if to_stdout:
        Output("table")  # says so if there is no standard output
        if sys.stdout.isatty():
            raise typer.BadParameter("a page cannot be shown on a terminal: add -o page.html")
    else:
        if not is_stream(output) and output.suffix.lower() not in (".html", ".htm"):
            raise typer.BadParameter(f"a page is HTML, and {output} is not called so: -o {output.stem}.html")
        check_writable(output)
    page = o.call("report", {**given, "output": None})
    others = ", and --heads others" if a is not None and given["attention"] != "all" else ""
    for note in page.notes:
        say(f"{note}; --size allows more{others}")
    if to_stdout:
        write_stdout(page.html.encode())
    else:
        write_file(output, page.html.encode())
