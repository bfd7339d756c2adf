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
PARKS = 0.5
"""From this score on `delimiter`, a head is shown as one that rests there."""

_LETTERS = {pattern.id: pattern.letter for pattern in PATTERNS} | {MIXED: "·"}


def letter(pattern: str) -> str:
    """The letter of a pattern, `·` for `mixed`; a user's own pattern has its name's first."""
    return _LETTERS.get(pattern) or pattern[:1].upper()
