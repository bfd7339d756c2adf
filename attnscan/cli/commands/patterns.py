"""The command `attnscan patterns`."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import ScreenFrame, Shown, destination_of
from attnscan.model.sources import check_docstrings
from attnscan.scoring.patterns import PATTERNS, pattern_frame
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
    given = context.params
    check_docstrings()  # what is shown
    destination = destination_of(given)
    shown = [pattern for pattern in PATTERNS if name in (None, pattern.id)]
    width = min(shutil.get_terminal_size().columns, 80)
    text = patterns_text() if name is None else pattern_text(shown[0], max(width, 40))
    command = ("heads", "--pattern", name or "next-word")
    destination.emit(Shown(partial(pattern_frame, shown), text, ScreenFrame(command=command)))
