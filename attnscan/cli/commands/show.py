"""The command `attnscan show`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.terms import Side

EXAMPLE = 'attnscan show 0-2 "I went to the store."'


def show(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    average: Annotated[bool, o.flag("--average", "Show the mean of the heads.")] = False,
    token: o.Token = None,
    from_sentence: Annotated[Side | None, o.option("Only queries of A or B.")] = None,
    to_sentence: Annotated[Side | None, o.option("Only keys of A or B.")] = None,
    window: o.Window = None,
    top: Annotated[int | None, o.option("List the N strongest weights instead of a map.", "N", min=1)] = None,
) -> None:
    given = context.params
    output = output_of(given)
    result = o.call("show", given)
    from attnscan.views.terminal.head_weights import head_view

    of_weights = ["plot", "--kind", "head", "--heads", heads, "-o", "heads.svg"]
    command = ["explain", heads] if given["weights"] is None else of_weights
    output.write(
        result.to_frame,
        lambda width: head_view(result, width, top),
        above=about(given),
        then=next_command(given, *command),
    )
