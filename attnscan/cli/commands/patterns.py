"""The command `attnscan patterns`."""

from __future__ import annotations

from attnscan.cli.destination import Destination, encoded, write_stdout
from attnscan.model.surroundings import check_docstrings
from attnscan.views.terminal.patterns import patterns_text

EXAMPLES = (
    "attnscan patterns",
    "attnscan patterns | less",
)


def patterns() -> None:
    check_docstrings()  # what is shown
    Destination("table")  # says so if there is no standard output
    write_stdout(encoded(patterns_text()))
