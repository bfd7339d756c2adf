"""The command `attnscan show`."""

from typing import Annotated

import typer

from attnscan.cli.calls import answer
from attnscan.cli.options import option
from attnscan.cli.output import input_lines


def show(
    context: typer.Context,
    top: Annotated[
        int | None, option("List the N strongest weights instead of a map.", "N", min=1)
    ] = None,
) -> None:
    output, result = answer(context)
    from attnscan.views.terminal.head_weights import head_view

    output.write(
        lambda: result.to_frame(top),
        lambda width: head_view(result, width, top),
        above=input_lines(context.params),
    )
