"""The command `attnscan patterns`."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import output_of
from attnscan.scoring.patterns import SHIPPED, pattern_frame
from attnscan.views.terminal.patterns import pattern_text, patterns_text

EXAMPLES = (
    "attnscan patterns",
    "attnscan patterns next-word",
)


def patterns(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            callback=lambda name: None if name is None else o.shipped_pattern_name(name),
            autocompletion=o.complete_patterns,
            help="Show this one in full.",
            show_default=False,
        ),
    ] = None,
) -> None:
    output = output_of(context.params)
    shown = [pattern for pattern in SHIPPED if name in (None, pattern.id)]
    width = max(min(shutil.get_terminal_size().columns, 80), 40)
    text = patterns_text() if name is None else pattern_text(shown[0], width)
    output.write(partial(pattern_frame, shown), text, then=("heads", "--pattern", name or "next-word"))
