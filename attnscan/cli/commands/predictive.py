"""The command `attnscan predictive`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.asking import ask
from attnscan.cli.destination import Shown, destination_of
from attnscan.cli.screen_frame import frame_of_input

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

    result = ask("predictive", given)
    surround = frame_of_input(given, "classify", "--pattern", "predictive")
    destination.emit(Shown(result.to_frame, lambda width: dependencies_view(result, width), surround))
