"""Imports of large libraries, without the search for unreachable objects that they set off again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Search for no unreachable objects while libraries are imported, and for none of theirs afterwards.

    Of the million objects that torch and transformers make, nearly all stay to the end of the process. This is for a
    process of our own: what has become unreachable by then is not freed.
    """
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # once, or else what a caller of several commands leaves would pile up
            gc.freeze()
        gc.enable()


def leave_all_in_place() -> None:
    """Before the interpreter ends: let it search through nothing. The system takes back all memory at once."""
    gc.freeze()
