"""The file that a picture is for: its format and its width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Picture = Literal["png", "svg", "pdf"]
COLUMN = 3.3
"""The width of a journal's column, in inches."""


@dataclass(frozen=True)
class Look:
    """The file that a picture is for."""

    format: Picture = "svg"
    width: float = COLUMN
    """In inches. The height is what the content needs."""

    @property
    def vector(self) -> bool:
        """Whether it is drawn when it is looked at, at any size."""
        return self.format != "png"
