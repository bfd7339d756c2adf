"""The library's function of a command's name, called with what the command was given."""

from __future__ import annotations

from typing import Any

import attnscan
from attnscan.cli.bars import SKIPS, running
from attnscan.cli.options import Given, arguments_of


def ask(command: str, given: Given, **changed: Any) -> Any:
    """What the library's function of a command's name returns for what the command was given, with a bar meanwhile.

    Raises: as the function.
    """
    with running(skips={} if command == "predictive" else SKIPS) as progress:
        function = getattr(attnscan, command)
        return function(**{**arguments_of(function, given), **changed, "progress": progress})
