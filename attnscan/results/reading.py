"""Readings: by what heads are scored, shown and drawn. No numpy, so that the command line can offer them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

By = Literal["weight", "carried"]
"""Attention weights, or what heads carry: weight times the norm of the transformed value, as a share of its row."""
Special = Literal["in", "out"]
"""Special tokens as keys, or removed: each row is then renormalised over words."""


@dataclass(frozen=True)
class Reading:
    """Which rows of a head are read: its attention weights or what it carries, with special tokens in or out."""

    by: By = "weight"
    """By attention weights, or by what heads carry."""
    special: Special = "in"
    """Whether special tokens are keys, or removed."""

    @property
    def carried(self) -> bool:
        """Whether it is of what heads carry, and not of their weights."""
        return self.by == "carried"

    @property
    def among_words(self) -> bool:
        """Whether special tokens are removed, and rows renormalised over words."""
        return self.special == "out"

    def __str__(self) -> str:
        """The reading in words, as screens name it.

        >>> print(Reading(), Reading("carried", "out"), sep=" / ")
        by attention weight / by what heads carry, among words
        """
        by = "by what heads carry" if self.carried else "by attention weight"
        return f"{by}, among words" if self.among_words else by


BEHAVIOUR = Reading("carried", "out")
"""By what is told what a head does, if nothing else is asked for: what it carries among words."""
