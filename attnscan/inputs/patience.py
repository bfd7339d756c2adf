"""Work that may never come to an end, in a thread that is waited for only so long."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Found = TypeVar("Found")

_left_alone: list[str] = []


def within(seconds: float, work: Callable[[], Found], name: str) -> list[Found]:
    """What some work finds, alone in a list; nothing if it takes too long. Its thread is then left to itself."""
    found: list[Found] = []
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # it belongs to whoever waits
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True, name=f"attnscan-{name}").start()
    if not done.wait(seconds):
        _left_alone.append(name)
    if raised:
        raise raised[0]
    return found


def distrust(name: str) -> None:
    """Have `leave` end the process at once: libraries that lack memory, say, may crash on their own way out."""
    _left_alone.append(name)


def leave(code: object) -> None:
    """End the process at once if some work was left to itself: a library's own end might wait for it, as pyarrow's."""
    if not _left_alone:
        return
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
