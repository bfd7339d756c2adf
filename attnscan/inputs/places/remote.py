"""Requests to stores that are written: each has a timeout, and a failure is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import httpx2

from attnscan.errors import AttnscanError
from attnscan.inputs.library_calls import NoAnswer, hushed, within
from attnscan.inputs.places import stores
from attnscan.inputs.places.names import shown

_T = TypeVar("_T")


def answered(
    ask: Callable[[], _T],
    name: str,
    doing: str,
    error: type[AttnscanError],
    seconds: float,
    remedy: str,
) -> _T:
    """The answer of a network, for which `seconds` are waited.

    Raises: `error` if it fails or times out; an AttnscanError of `ask` as it is.
    """
    try:
        with hushed():  # Azure's library calls programs that are not there
            return within(seconds, ask, "network")
    except AttnscanError:
        raise
    except (NoAnswer, httpx2.TimeoutException):  # whichever of the two clocks is first
        why = f"timed out after {seconds:.0f} seconds"
    except Exception as failed:  # each store raises its own kinds
        why, _ = stores.reason(failed, name)
    raise error(f"cannot {doing} {shown(name)}: {why}", remedy)
