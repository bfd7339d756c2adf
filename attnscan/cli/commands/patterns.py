"""The command `attnscan patterns`."""

from __future__ import annotations

from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.output import output_of
from attnscan.scoring.patterns import SHIPPED, chosen
from attnscan.views.terminal.patterns import pattern_text, patterns_text

EXAMPLE = "attnscan patterns"


def patterns(
    context: typer.Context,
    name: Annotated[str | None, o.argument("Show this one in full.", "PATTERN")] = None,
) -> None:
    output = output_of(context.params)
    known = None if name is None else chosen(name, SHIPPED)[0]
    from rich.text import Text

    output.write(
        lambda: attnscan.patterns(name),
        lambda width: Text(patterns_text() if known is None else pattern_text(known, min(width, 80))),
        then=("heads", "--pattern", "next-word" if known is None else known.id),
    )
