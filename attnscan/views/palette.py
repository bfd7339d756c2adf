"""What each pattern looks like, on every screen, page and picture: its letter and its colour."""

from __future__ import annotations

from attnscan.results.behaviour import AVERAGE, CANDIDATES
from attnscan.results.scores import MIXED
from attnscan.safe_text import plain
from attnscan.scoring.cross import CROSS_PATTERNS
from attnscan.scoring.patterns import PATTERNS

_STATED = {candidate.id: candidate.letter for candidate in CANDIDATES}
_CROSS = {pattern.id: pattern for pattern in CROSS_PATTERNS if pattern.id not in _STATED}  # `even` is a statement, too
COLORS = {pattern.id: pattern.color for pattern in (*_CROSS.values(), *PATTERNS)}
MIXED_COLOR, STATED_COLOR, OTHER_COLOR, INK = "#dcdcdc", "#b9c3e3", "#56567f", "#111111"
"""On paper: of `mixed`, of statements, of a user's own pattern, and of text."""
STATED_SCREEN_COLOR = "#6a70b8"
"""Of statements on pages, where it must be seen on black and on white."""
HEAD_COLORS = (
    *("#1f6fb2", "#e4572e", "#2ca25f", "#8e5bc0", "#d9a400", "#17a2b8", "#d6438a", "#7f8c1f"),
    *("#7a5230", "#f28ab2", "#5560c9", "#b0413e", "#8cc7a1", "#64748b", "#c9a27a", "#a3b8e0"),
)
"""Where several heads stand beside each other: then a colour is a head, and not a pattern."""
ITSELF_COLOR, PUNCTUATION_COLOR, PREDICTIVE_SHADE = "#1a1a1a", "#6a3d9a", "#6b4a0d"
SAME_KEYS_COLOR = "#4a3fe0"
"""Of parts of profiles that are no patterns, and of `predictive` beside `bag-of-words`, from which its own colour does
not differ to readers without red cones; no letter tells them apart there."""
SYNTAX_COLORS = {"S": "#0072b2", "M": "#009e73", "F": "#d55e00", "W": "#cc79a7", "C": "#e69f00", "P": "#6a3d9a"} | {
    "D": OTHER_COLOR,
    "·": MIXED_COLOR,
}
"""Of what heads follow in a treebank, by its letter; from heads to dependents the letter is small, the colour pale."""
RAMP = ("#f4f7fa", "#cbdaef", "#a3bde4", "#79a2d8", "#4e86c9", "#2a6baf", "#17518c", "#0b3968", "#0c2240")
"""From nothing to most, for weights and scores: one hue, lightness falling in equal steps (CIE L* 97 to 13)."""
PARKS = 0.5
"""From this score on `delimiter`, a head is shown as one that rests there."""

_DIMMEST = 0.2  # the opacity of a head that rests on delimiters alone
_LETTERS = (
    _STATED | {pattern.id: pattern.letter for pattern in (*_CROSS.values(), *PATTERNS)} | {MIXED: "·", AVERAGE: "·"}
)


def letter(pattern: str) -> str:
    """The letter of a pattern or a statement, `·` for `mixed` and `average`; a user's own pattern has its name's first.

    >>> [letter(name) for name in ("next-word", "next-3", "mixed", "average", "two_back")]
    ['N', 'n', '·', '·', 'T']
    """
    return _LETTERS.get(pattern) or plain(pattern)[:1].upper()


def mark(label: str, parking: float) -> str:
    """A head's letter on a map: that of its label, small if the head rests on delimiters."""
    return letter(label).lower() if parking >= PARKS else letter(label)


def syntax_opacity(mark: str) -> float:
    """Of a letter's colour in `SYNTAX_COLORS`.

    >>> syntax_opacity("F"), syntax_opacity("f"), syntax_opacity("·")
    (1, 0.5, 1)
    """
    return 0.5 if mark.islower() else 1


def paper_color(label: str) -> str:
    """The colour on paper of a label or a statement."""
    of_others = MIXED_COLOR if label in (MIXED, AVERAGE) else STATED_COLOR if label in _LETTERS else OTHER_COLOR
    return COLORS.get(label, of_others)


def opacity(parking: float) -> float:
    """Of the cell of a head that rests so much on delimiters, both in [0, 1]."""
    return 1 - (1 - _DIMMEST) * parking


def on_white(color: str, opacity: float) -> str:
    """What a colour looks like on white paper.

    >>> on_white("#000000", 1), on_white("#000000", 0.5)
    ('#000000', '#808080')
    """
    return "#" + "".join(f"{round(255 - opacity * (255 - value)):02x}" for value in _channels(color))


def readable_on(color: str) -> str:
    """White or ink, whichever stands out more against a colour.

    >>> readable_on("#ffffff"), readable_on("#000000")
    ('#111111', '#ffffff')
    """
    return max(INK, "#ffffff", key=lambda text: contrast(text, color))


def contrast(color: str, other: str) -> float:
    """The contrast of WCAG 2, from 1 to 21; text needs 4.5.

    >>> contrast("#ffffff", "#000000")
    21.0
    """
    low, high = sorted((_luminance(color), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    shares = (value / 255 for value in _channels(color))
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(share * value for share, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _channels(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]
