"""The command `attnscan show`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import Shown, destination_of, frame_of_input
from attnscan.results.grid import attention_named, check_heads_are_named
from attnscan.results.terms import Side

EXAMPLES = (
    'attnscan show 0-2 "I went to the store."',
    'attnscan show layer:1 "I went to the store." --token store',
)


def show(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    average: Annotated[bool, typer.Option("--average", help="Show the mean of the heads.")] = False,
    token: o.Token = None,
    from_sentence: Annotated[Side | None, typer.Option("--from-sentence", help="Only queries of A or B.")] = None,
    to_sentence: Annotated[Side | None, typer.Option("--to-sentence", help="Only keys of A or B.")] = None,
    window: o.Window = None,
    top: Annotated[int | None, o.top_option("List the N strongest weights instead of a map.")] = None,
) -> None:
    given = context.params
    check_heads_are_named(heads)
    destination = destination_of(given)
    from attnscan.views.terminal.head_weights import head_view

    with running() as progress:
        result = attnscan.show(**o.arguments_of("show", given), progress=progress)
    then = (
        ("explain", heads)
        if given["weights"] is None
        else ("plot", "--kind", "head", "--heads", heads, "-o", "heads.svg")
    )
    surround = frame_of_input(given, *then, heads=heads)
    if b is None and given["weights"] is None and attention_named(heads, given["attention"]) != "encoder":
        surround = replace(surround, above=(*surround.above, "B  is written by the model"))
    destination.emit(Shown(result.to_frame, lambda width: head_view(result, width, top), surround))
