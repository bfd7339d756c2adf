"""The command `attnscan models`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import output_of

EXAMPLE = "attnscan models"
_CHECKPOINT = "Examine this model: a hub id, a directory, or 'bundled'."


def models(
    context: typer.Context,
    checkpoint: Annotated[str | None, o.argument(_CHECKPOINT, "CHECKPOINT")] = None,
) -> None:
    output = output_of(context.params)
    result = o.call("models", context.params)
    from attnscan.views.terminal.models import checkpoint_view, models_view

    if checkpoint is None:
        then = ["heads", "--model", result.ready[0]] if result.ready else []
        output.write(result.to_frame, lambda _: models_view(result), then=then)
    else:
        frame = result.to_patterns_frame if output.format == "json" else result.to_frame
        output.write(frame, lambda _: checkpoint_view(result), then=["heads", "--model", checkpoint])
