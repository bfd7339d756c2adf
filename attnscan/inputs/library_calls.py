"""Other people's libraries: their panics, what they set for the whole process, and how they are left."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_distrusted: list[str] = []


def distrust(name: str) -> None:
    """Have `leave` end the process at once, because a library may crash in its own clean-up."""
    _distrusted.append(name)


def leave(code: object) -> None:
    """End the process at once if a library was distrusted."""
    if not _distrusted:
        return
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def is_panic(error: BaseException) -> bool:
    """Whether it is what Python sees of a panic in Rust, as of a fast tokenizer; its class cannot be imported."""
    return type(error).__module__ == "pyo3_runtime"


class WhileInside:
    """A state of the whole process: set by the first who enters, and put back by the last, in whatever threads."""

    def __init__(self, set_up: Callable[[], Any], put_back: Callable[[Any], None]) -> None:
        self._set_up, self._put_back = set_up, put_back
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = self._set_up()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._put_back(self._before)
