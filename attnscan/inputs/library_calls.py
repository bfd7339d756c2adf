"""Other people's libraries: their panics, and how they are left when the process ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

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
