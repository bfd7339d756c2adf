"""What users are told while work runs: how far it is, what was decided for them, and what was skipped.

A user of the library passes `progress`, sees warnings, and finds notes in the log `attnscan`; the command line shows
all three on standard error.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attnscan.results.terms import counted

if TYPE_CHECKING:
    from attnscan.results.signature import Signature

OnProgress = Callable[[str, int | None, int | None], object]
"""Called with what runs now, how much of it is done, and how much there is; None for what is not counted or known."""
LOG = logging.getLogger("attnscan")


class Note(UserWarning):
    """How a file or a checkpoint was read, where that was decided by its looks and could be wrong."""


def silent(_doing: str, _done: int | None = None, _total: int | None = None) -> None:
    """Tell nobody."""


def warn(text: str) -> None:
    """Warn of how a file or a checkpoint is read."""
    if text:
        warnings.warn(text, Note, stacklevel=3)


def note(text: str) -> None:
    """Say what the user should know, and a program need not."""
    if text:
        LOG.info(text)


def note_inputs(
    signatures: Sequence[Signature], *, bad: int = 0, length: int | None = None, dtype: str = "auto"
) -> None:
    """Say how inputs were read: cut, or not at all. Of two models on the same pairs, the first counts.

    `bad` records were skipped; `length` is that of a single input, as the model read it; `dtype` was asked for.
    """
    first = signatures[0]
    if dtype not in ("auto", first.dtype):
        note(f"computed in {first.dtype}: on a CPU, {dtype} is for scores alone")
    if bad:
        note(f"{counted(bad, 'bad record')} {'was' if bad == 1 else 'were'} skipped")
    if first.pairs_truncated and length is not None:
        note(f"the input was cut to the {length} tokens that the model reads")
    elif first.pairs_truncated:
        note(f"{first.pairs_truncated} of {first.pairs_read} inputs were cut to what the model reads")
    if first.pairs_skipped:
        note(f"{first.pairs_skipped} of {first.pairs_read} inputs were skipped")
