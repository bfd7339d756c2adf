"""The commands `attnscan patterns` and `attnscan models`."""

from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.output import output_of


def patterns(
    context: typer.Context,
    name: Annotated[str | None, o.argument("Show this one.", "PATTERN")] = None,
) -> None:
    output = output_of(context.params)
    from rich.text import Text

    from attnscan.scoring.patterns import SHIPPED, chosen
    from attnscan.views.terminal.patterns import pattern_text, patterns_text

    pattern = None if name is None else chosen(name, SHIPPED)[0]
    output.write(
        lambda: attnscan.patterns(name),
        lambda width: Text(
            patterns_text() if pattern is None else pattern_text(pattern, min(width, 80))
        ),
    )


_CHECKPOINT = "Examine this model: a hub id, a directory, or 'bundled'."


def models(
    context: typer.Context,
    checkpoint: Annotated[str | None, o.argument(_CHECKPOINT, "CHECKPOINT")] = None,
) -> None:
    output, result = o.answer(context)
    from attnscan.views.terminal.about import checkpoint_view, models_view

    output.write(
        result.to_frame,
        lambda _: models_view(result) if checkpoint is None else checkpoint_view(result),
    )
