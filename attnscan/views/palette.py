"""What each pattern looks like, on every screen, page and picture: its letter and its colour."""

from __future__ import annotations

from attnscan.patterns import PATTERNS
from attnscan.results import MIXED

# After Okabe and Ito, told apart by colour-blind readers, on dark and on light ground.
COLORS = {
    "next-word": "#3d8fd6",
    "previous-word": "#e69f00",
    "identical": "#009e73",
    "cross-sentence": "#cc79a7",
    "predictive": "#a6761d",
    "delimiter": "#8a8a8a",
    "bag-of-words": "#d55e00",
}
MIXED_COLOR, OTHER_COLOR = "#dcdcdc", "#56567f"
"""On paper: of `mixed`, and of a user's own pattern."""
RAMP = ("#f4f7fa", "#cbdaef", "#a3bde4", "#79a2d8", "#4e86c9", "#2a6baf", "#17518c", "#0b3968", "#0c2240")
"""From nothing to most, for weights and scores: one hue, lightness falling in equal steps (CIE L* 97 to 13)."""
PARKS = 0.5
"""From this score on `delimiter`, a head is shown as one that rests there."""

_LETTERS = {pattern.id: pattern.letter for pattern in PATTERNS} | {MIXED: "·"}


def letter(pattern: str) -> str:
    """The letter of a pattern, `·` for `mixed`; a user's own pattern has its name's first."""
    return _LETTERS.get(pattern) or pattern[:1].upper()
