"""What `repr` and `print` say of results: a few lines, never whole arrays."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from attnscan.results.grid import Grid
from attnscan.results.signature import Reading, Signature
from attnscan.safe_text import plain

_WIDTH = 240  # of a line


def lines(what: Any, signature: Signature, grid: Grid | None, *more: str) -> str:
    """A result's class, of which model and how many pairs it is, and some lines more."""
    about = [signature.model] + ([f"{grid} = {len(grid)} heads"] if grid is not None else [])
    about += [str(signature.reading)] if signature.reading != Reading() else []
    about += [signature.counts] if signature.pairs_read > 1 else []
    return "\n".join([f"{type(what).__name__} of {short(', '.join(about))}", *(f"  {short(line)}" for line in more)])


def short(text: str) -> str:
    """A text that a terminal may show, on one line, cut where it is long."""
    text = plain(text)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def shaped(what: Any) -> str:
    """A result's class and fields, arrays by their shapes alone."""
    values = {field.name: getattr(what, field.name) for field in fields(what) if field.repr}
    texts = {
        name: f"<{list(value.shape)} {value.dtype}>" if isinstance(value, np.ndarray) else short(repr(value))
        for name, value in values.items()
    }
    return f"{type(what).__name__}({', '.join(f'{name}={text}' for name, text in texts.items())})"
