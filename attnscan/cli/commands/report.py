"""The command `attnscan report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.messages import say
from attnscan.results.files import check_suffix

EXAMPLE = 'attnscan report "The cat sat on the mat." -o page.html'
_HEADS = "Include weights of these heads: 2-0,6-11, layer:2. [default: as many as fit]"
_SIZE = "Largest size of the page. [default: 2, or what --heads needs]"


def report(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="Write the page to FILE.")],
    a: o.A = None,
    b: o.B = None,
    heads: Annotated[str | None, o.option(_HEADS, "HEADS")] = None,
    no_neurons: Annotated[bool, o.flag("--no-neurons", "Leave out queries and keys of heads.")] = False,
    size: Annotated[float | None, o.option(_SIZE, "MB", min=0.1, max=10_000)] = None,
    window: o.Window = None,
) -> None:
    check_suffix(output, ".html", "--output")
    for note in o.call("report", context.params).notes:
        say(f"{note}; --size allows more")
