"""The command `attnscan predictive`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of

EXAMPLE = 'attnscan predictive "I went to the store."'


def predictive(context: typer.Context, a: Annotated[str, o.argument("Sentence A.", "A")], b: o.B = None) -> None:
    given = context.params
    output = output_of(given)
    result = o.call("predictive", given)
    from attnscan.views.terminal.head_weights import dependencies_view

    output.write(
        result.to_frame,
        lambda width: dependencies_view(result, width),
        above=about(given),
        then=next_command(given, "classify", "--pattern", "predictive"),
    )
