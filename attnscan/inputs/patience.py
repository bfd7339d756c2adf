"""Run work that may never end in a thread, with a timeout."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_T = TypeVar("_T")

_left_alone: list[str] = []


class NoAnswer(Exception):
    """Work that did not end in time; its thread goes on."""


def within(seconds: float, work: Callable[[], _T], name: str) -> _T:
    """Run some work in a thread and return its result.

    Raises: NoAnswer if that takes longer; whatever the work raises.
    """
    results: list[_T] = []
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # it belongs to whoever waits
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True, name=f"attnscan-{name}").start()
    if not done.wait(seconds):
        _left_alone.append(name)
        raise NoAnswer(name)
    if raised:
        raise raised[0]
    return results[0]


def distrust(name: str) -> None:
    """Have `leave` end the process at once, because a library may crash in its own clean-up."""
    _left_alone.append(name)


def leave(code: object) -> None:
    """End the process at once if some work still runs: a library's clean-up may wait for it, as pyarrow's does."""
    if not _left_alone:
        return
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
