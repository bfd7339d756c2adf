"""The command `attnscan models`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli.bars import answered, working
from attnscan.cli.bundles import Without, complete_models, flattened
from attnscan.cli.destination import Destination, Shown
from attnscan.cli.options import DeviceOption, Where
from attnscan.cli.screen_frame import ScreenFrame
from attnscan.run.requests import Examine
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    "attnscan models",
    "attnscan models bundled",
)


@flattened
def models(
    *,
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="CHECKPOINT",
            autocompletion=complete_models,
            help="Examine this model: a hub id, a directory, or 'bundled'.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = "auto",
    where: Annotated[Where, Without("signature")],
) -> None:
    destination = where.destination()
    if checkpoint is None:
        _show_all(destination)
    else:
        _show_one(ScanOptions(model=checkpoint, device=device), destination)


def _show_all(destination: Destination) -> None:
    from attnscan.model.catalog import Catalog
    from attnscan.views.terminal.models import models_view

    with working("looking for models"):
        catalog = Catalog.now()

    ready = [entry.model for entry in catalog.entries if entry.state == "ready"]
    surround = ScreenFrame(command=("models", ready[0]) if ready else ())
    destination.emit(Shown(catalog.to_frame, lambda _: models_view(catalog), surround))


def _show_one(options: ScanOptions, destination: Destination) -> None:
    checkpoint = answered(Examine(options))
    from attnscan.views.terminal.models import checkpoint_view

    frame = checkpoint.to_patterns_frame if destination.format == "json" else checkpoint.to_frame
    surround = ScreenFrame(command=("heads",), options=("--model", str(options.model)))
    destination.emit(Shown(frame, lambda _: checkpoint_view(checkpoint), surround))
