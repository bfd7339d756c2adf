"""The command `attnscan show`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.grid import attention_named
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
    output = output_of(given)
    result = o.call("show", given)
    from attnscan.views.terminal.head_weights import head_view

    command: tuple[str, ...] = ("explain", heads)
    above = about(given)
    if given["weights"] is not None:
        command = ("plot", "--kind", "head", "--heads", heads, "-o", "heads.svg")
    elif b is None and attention_named(heads, given["attention"]) != "encoder":
        above += ("B  is written by the model",)
    output.write(
        result.to_frame,
        lambda width: head_view(result, width, top),
        above=above,
        then=next_command(given, *command, heads=heads),
    )
