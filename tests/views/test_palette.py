"""The colours, as the eye sees them."""

from __future__ import annotations

import numpy as np
import pytest

from attnscan.results.scores import HABITS
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.palette import (
    COLORS,
    HEAD_COLORS,
    INK,
    NO_HABIT_COLOR,
    OTHER_COLOR,
    RAMP,
    contrast,
    letter,
    readable_on,
    style_of,
)


def test_the_ramp_darkens_in_equal_steps() -> None:
    """Lightness, CIE L*, of each colour: the eye sees twice the weight twice as dark."""
    rgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in RAMP])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16
    assert np.abs(np.diff(lightness) - np.diff(lightness).mean()).max() < 0.5


@pytest.mark.parametrize("color", [*COLORS.values(), *HEAD_COLORS, NO_HABIT_COLOR, OTHER_COLOR, *RAMP])
def test_text_on_every_colour_stands_out(color: str) -> None:
    assert contrast(readable_on(color), color) >= 4.5
    assert contrast("#ffffff", "#e69f00") < 4.5 < contrast(INK, "#e69f00")  # a control


def test_no_letter_has_two_meanings_and_every_kind_has_words_and_a_group() -> None:
    names = {*(pattern.id for pattern in PATTERNS), *HABITS}
    assert len({letter(name) for name in (*names, "")}) == len(names) + 1
    assert all(style_of(name).words != name or name == "punctuation" or name == "itself" for name in names)
