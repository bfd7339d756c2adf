"""Pictures for a paper or a slide, drawn with matplotlib, which lays out every figure.

figure.py   what all pictures share: style, panels, grids of heads, captions, legends, the file
picture.py  each kind of picture, and which results have which
"""

from typing import Literal, get_args

from attnscan.inputs.option import Option, check_known, check_within

Picture = Literal["png", "svg", "pdf"]
COLUMN = 3.3
"""The width of a journal's column, in inches."""


def check_file(format: str, width: float) -> None:
    """Raises: OptionError for a format that pictures do not have, or a width that is not 2 to 20 inches."""
    check_known("picture format", format, get_args(Picture))
    check_within("width", width, Option("in inches", least=2, most=20), whole=False)
