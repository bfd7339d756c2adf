"""The file that a picture is for: its format and its width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from attnscan.errors import OptionError, nearest

Picture = Literal["png", "svg", "pdf"]
_SHOWN = 12  # letters that are named
COLUMN = 3.3
"""The width of a journal's column, in inches."""


class LackingLetters(UserWarning):
    """Letters in a picture that no font of this machine has."""

    def __init__(self, letters: set[str], format: Picture) -> None:
        shown = " ".join(sorted(letters)[:_SHOWN]) + (" and others" if len(letters) > _SHOWN else "")
        seen = (
            "SVG keeps them as text, for a viewer that has one" if format == "svg" else "the picture has boxes for them"
        )
        super().__init__(f"no font here has {shown}: {seen}; install such a font, as Noto Sans is for most scripts")


@dataclass(frozen=True)
class PictureFile:
    """The file that a picture is for."""

    format: Picture = "svg"
    width: float = COLUMN
    """In inches. The height is what the content needs."""

    def __post_init__(self) -> None:
        formats = get_args(Picture)
        if self.format not in formats:
            remedy = nearest(str(self.format), formats, f"there are {', '.join(formats)}")
            raise OptionError(f"there is no format '{self.format}' for a picture", remedy)
        if not 2 <= self.width <= 20:
            raise OptionError(f"the picture's width is {self.width:g} inches", "give 2 to 20")

    @property
    def vector(self) -> bool:
        """Whether it is drawn when it is looked at, at any size."""
        return self.format != "png"
