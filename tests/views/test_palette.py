"""The colours, as the eye sees them."""

from __future__ import annotations

import numpy as np

from attnscan.views.palette import RAMP


def test_the_ramp_darkens_in_equal_steps() -> None:
    """Lightness, CIE L*, of each colour: the eye sees twice the weight twice as dark."""
    rgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in RAMP])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16
    assert np.abs(np.diff(lightness) - np.diff(lightness).mean()).max() < 0.5
