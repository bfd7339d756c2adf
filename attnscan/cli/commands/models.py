"""The command `attnscan models`."""

from __future__ import annotations

from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import ScreenFrame, Shown, destination_of

EXAMPLES = (
    "attnscan models",
    "attnscan models bundled",
)


def models(
    context: typer.Context,
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="CHECKPOINT",
            autocompletion=o.complete_models,
            help="Examine this model: a hub id, a directory, or 'bundled'.",
            show_default=False,
        ),
    ] = None,
) -> None:
    given = context.params
    destination = destination_of(given)
    from attnscan.model.catalog import Catalog
    from attnscan.views.terminal.models import checkpoint_view, models_view

    with running() as progress:
        result = attnscan.models(**o.arguments_of("models", given), progress=progress)
    if isinstance(result, Catalog):
        catalog = result
        ready = [entry.model for entry in catalog.entries if entry.state == "ready"]
        surround = ScreenFrame(command=("heads", "--model", ready[0]) if ready else ())
        destination.emit(Shown(catalog.to_frame, lambda _: models_view(catalog), surround))
        return
    examined = result
    frame = examined.to_patterns_frame if destination.format == "json" else examined.to_frame
    surround = ScreenFrame(command=("heads",), options=("--model", str(checkpoint)))
    destination.emit(Shown(frame, lambda _: checkpoint_view(examined), surround))
