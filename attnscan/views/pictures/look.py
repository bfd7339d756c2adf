"""The file that a picture is for: its format and its width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from attnscan.errors import OptionError, nearest

Picture = Literal["png", "svg", "pdf"]
COLUMN = 3.3  # inches: the width of a journal's column


def check_file(format: str, width: float) -> None:
    """Raises: OptionError for a format that pictures do not have, or a width that is not 2 to 20 inches."""
    check_known("picture format", format, get_args(Picture))
    if not 2 <= width <= 20:
        raise OptionError(f"the picture's width is {width:g} inches", "give 2 to 20")


def check_known(what: str, name: str, known: Sequence[str]) -> None:
    """Raises: OptionError for a name that there is not."""
    if name not in known:
        raise OptionError(f"there is no {what} '{name}'", nearest(name, known, f"give {', '.join(known)}"))
