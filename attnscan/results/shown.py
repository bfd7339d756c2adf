"""What `repr` and `print` say of results: a few lines, never whole arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.grid import Grid, Head
from attnscan.results.signature import Reading, Signature
from attnscan.safe_text import plain

_WIDTH = 240  # of a line
_MOST = 6  # things in a list


def lines(what: Any, signature: Signature, grid: Grid | None, *more: str) -> str:
    """A result's class, of which model and how many pairs it is, and some lines more."""
    heads = [] if grid is None else [f"{grid} = {len(grid)} heads"]
    reading = [str(signature.reading)] if signature.reading != Reading() else []
    about = [signature.model, *heads, *reading, *([signature.counts] if signature.pairs_read > 1 else [])]
    return "\n".join([f"{type(what).__name__} of {short(', '.join(about))}", *(f"  {short(line)}" for line in more)])


def short(text: str) -> str:
    """A text that a terminal may show, on one line, cut where it is long."""
    text = plain(text)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def some(parts: Sequence[str]) -> str:
    """The first of some things, and how many more there are.

    >>> some(list("abcdefgh"))
    'a, b, c, d, e, f and 2 more'
    """
    more = f" and {len(parts) - _MOST} more" if len(parts) > _MOST else ""
    return ", ".join(parts[:_MOST]) + more


def tallied(labels: NDArray[np.str_]) -> str:
    """How many heads have each label, most first.

    >>> tallied(np.array([["", "delimiter"], ["", ""]]))
    '3 no distinct habit, 1 delimiter'
    """
    return ", ".join(
        f"{count} {label or 'no distinct habit'}" for label, count in Counter(labels.ravel().tolist()).most_common()
    )


def scored(head: Head, score: float) -> str:
    """A head with its score.

    >>> scored(Head(0, 2), 0.998)
    '0-2 (1.00)'
    """
    return f"{head.name} ({score:.2f})"


def shaped(what: Any) -> str:
    """A result's class and fields, arrays by their shapes alone.

    >>> from attnscan.results.terms import Scored
    >>> shaped(Scored("delimiter"))
    "Scored(id='delimiter', part_of=None, of_others=False)"
    """
    texts = []
    for field in fields(what):
        value = getattr(what, field.name)
        text = f"<{list(value.shape)} {value.dtype}>" if isinstance(value, np.ndarray) else repr(value)
        texts += [f"{field.name}={short(text) if isinstance(value, str | tuple) else text}"] if field.repr else []
    return f"{type(what).__name__}({', '.join(texts)})"
