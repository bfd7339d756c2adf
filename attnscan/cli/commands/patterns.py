"""The command `attnscan patterns`."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Annotated

import typer

from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import Where, complete_patterns, shipped_pattern_name
from attnscan.cli.screen_frame import ScreenFrame
from attnscan.model.sources import check_docstrings
from attnscan.scoring.patterns import PATTERNS, pattern_frame
from attnscan.views.terminal.patterns import pattern_text, patterns_text

EXAMPLES = (
    "attnscan patterns",
    "attnscan patterns next-word",
)


@flattened
def patterns(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            callback=lambda name: None if name is None else shipped_pattern_name(name),
            autocompletion=complete_patterns,
            help="Show this one in full.",
            show_default=False,
        ),
    ] = None,
    where: Annotated[Where, Without("signature")],
) -> None:
    check_docstrings()  # what is shown
    destination = where.destination()
    shown = [pattern for pattern in PATTERNS if name in (None, pattern.id)]

    width = min(shutil.get_terminal_size().columns, 80)
    text = patterns_text() if name is None else pattern_text(shown[0], max(width, 40))
    command = ("patterns", "next-word") if name is None else ("heads", "--pattern", name)
    destination.emit(Shown(partial(pattern_frame, shown), text, ScreenFrame(command=command)))
