"""Results that are computed once, however many commands show them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

import attnscan
from attnscan.cli.commands_table import COMMAND_NAMES


def remember_results(patch: pytest.MonkeyPatch, results: dict[str, Any]) -> None:
    """What one command computed, another that asks the same of the model takes from `results`.

    Calls with arguments that bear no name, as Python's are, always compute.
    """

    def remembering(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def again(*places: Any, **arguments: Any) -> Any:
            if places:
                return function(*places, **arguments)
            asked = {name: value for name, value in arguments.items() if name != "progress"}
            key = f"{function.__name__} {asked!r}"
            if key not in results:
                results[key] = function(**arguments)
            return results[key]

        return again

    for name in COMMAND_NAMES:
        patch.setattr(attnscan, name, remembering(getattr(attnscan, name)), raising=False)
