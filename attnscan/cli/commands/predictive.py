"""The command `attnscan predictive`."""

from __future__ import annotations

from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import Shown, destination_of, frame_of_input

EXAMPLES = (
    'attnscan predictive "I went to the store."',
    'attnscan predictive "I went to the store." --csv > predictive.csv',
)


def predictive(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="Sentence A.")],
    b: o.B = None,
) -> None:
    given = context.params
    destination = destination_of(given)
    from attnscan.views.terminal.head_weights import dependencies_view

    with running(skips={}) as progress:
        result = attnscan.predictive(**o.arguments_of("predictive", given), progress=progress)
    surround = frame_of_input(given, "classify", "--pattern", "predictive")
    destination.emit(Shown(result.to_frame, lambda width: dependencies_view(result, width), surround))
