"""What each pattern and habit is called, and looks like, on every screen, page and picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attnscan.errors import OptionError
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import SHIPPED, called
from attnscan.text import plain

if TYPE_CHECKING:
    from attnscan.results.grid import Head
    from attnscan.results.scores import Labels

GROUPS = {
    "ahead": "#3d8fd6",
    "back": "#e69f00",
    "around": "#7f8c1f",
    "same": "#009e73",
    "fixed": "#8e5bc0",
    "everywhere": "#d55e00",
    "predicts": "#a6761d",
    "rest": "#8a8a8a",
}
"""The groups of kinds, in the order of screens, each with the colour of its habits."""


class KindStyle(NamedTuple):
    """How a pattern or habit is shown.

    It has its mark in maps, what words attend to, and its group on screens.
    """

    letter: str
    words: str
    group: str


_PATTERN_STYLES = {
    pattern.id: KindStyle(pattern.letter, pattern.words, pattern.group) for pattern in ALL_PATTERNS
}
_STYLES = _PATTERN_STYLES | {
    "next-3": KindStyle("n", "the next 3 words", "ahead"),
    "next-8": KindStyle("m", "the next 8 words", "ahead"),
    "after": KindStyle("a", "words after it", "ahead"),
    "previous-3": KindStyle("p", "the previous 3 words", "back"),
    "previous-8": KindStyle("q", "the previous 8 words", "back"),
    "before": KindStyle("b", "words before it", "back"),
    "within-1": KindStyle("v", "the words beside it", "around"),
    "within-3": KindStyle("w", "words within 3", "around"),
    "itself": KindStyle("i", "itself", "same"),
    "punctuation": KindStyle("u", "punctuation", "fixed"),
    "frequent-words": KindStyle("f", "the 100 commonest words", "fixed"),
    "rare-words": KindStyle("r", "less common words", "fixed"),
    "same-keys": KindStyle("k", "the same few words, whatever the query", "fixed"),
    "own-sentence": KindStyle("o", "its own sentence", "everywhere"),
    "other-sentence": KindStyle("x", "the other sentence", "everywhere"),
    "start": KindStyle("s", "special tokens at the start", "rest"),
    "middle": KindStyle("d", "special tokens in the middle", "rest"),
    "end": KindStyle("t", "special tokens at the end", "rest"),
}
COLORS = {name: GROUPS[style.group] for name, style in _STYLES.items() if style.group in GROUPS} | {
    pattern.id: pattern.color for pattern in ALL_PATTERNS
}
NO_HABIT_COLOR = "#dcdcdc"
"""On paper, of a head without a distinct habit."""
OTHER_COLOR = "#56567f"
"""On paper, of a user's own pattern."""
INK = "#111111"
"""On paper, of text."""
RULE = "#d9d9d9"
"""On paper, of lines to compare with."""
HEAD_COLORS = (
    *("#1f6fb2", "#e4572e", "#2ca25f", "#8e5bc0", "#d9a400", "#17a2b8", "#d6438a", "#7f8c1f"),
    *("#7a5230", "#f28ab2", "#5560c9", "#b0413e", "#8cc7a1", "#64748b", "#c9a27a", "#a3b8e0"),
)
"""Where several heads stand beside each other: then a colour is a head, and not a pattern."""
SYNTAX_COLORS = {
    "S": "#0072b2",
    "M": "#009e73",
    "F": "#d55e00",
    "W": "#cc79a7",
    "C": "#e69f00",
    "P": "#6a3d9a",
    "D": OTHER_COLOR,
    "L": "#56b4e9",
    "·": NO_HABIT_COLOR,
}
"""Of what heads follow in a treebank or in links, by its letter.

From heads to dependents the letter is small, the colour pale."""
RAMP = (
    "#f4f7fa",
    "#cbdaef",
    "#a3bde4",
    "#79a2d8",
    "#4e86c9",
    "#2a6baf",
    "#17518c",
    "#0b3968",
    "#0c2240",
)
"""From nothing to most, for weights and scores: one hue.

Its lightness falls in equal steps (CIE L* 97 to 13)."""
RESTS = "'"  # behind the letter of a head that rests
RESTING_OPACITY = 0.35  # of the cell of a head that rests on special tokens
PICTURE_WIDTH = 3.3  # inches, as wide as a journal's column: the width of pictures
PAPER_SIZE = 7.0  # of text in points: what journals ask for at the least
PAPER_STYLE: dict[str, Any] = {
    "font.size": PAPER_SIZE,
    "axes.titlesize": PAPER_SIZE,
    "figure.titlesize": PAPER_SIZE,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.spines.bottom": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.borderpad": 0,
    "axes.labelpad": 2,
    "axes.titlepad": 2,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "axes.titlelocation": "left",
    "text.color": INK,
    "text.parse_math": False,  # names stay text
    "grid.color": RULE,
    "lines.linewidth": 1,
    "legend.frameon": False,
    "legend.handlelength": 1,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "attnscan",  # the same names in every run
    "pdf.fonttype": 42,
}
"""Settings of matplotlib for pictures."""


def style_of(name: str) -> KindStyle:
    """How a pattern or habit is shown.

    A user's own pattern has its name's first letter, and its name for words.
    """
    return _STYLES.get(name) or KindStyle(plain(name)[:1].upper(), plain(name), "own")


def letter(name: str) -> str:
    """The letter of a pattern or habit in maps; `-` for none."""
    return style_of(name).letter if name else "-"


def mark(name: str, *, unsure: bool = False, rests: bool = False, changed: bool = False) -> str:
    """How a head stands on maps, in tables, pictures and on pages, with or without colour.

    It is the letter of what the head does among words, `?` if its label is not sure or `≠` if it
    is sure and another one in a second corpus, and `'` if it rests.

    >>> mark("previous-word"), mark("previous-word", unsure=True, rests=True), mark("", rests=True)
    ('P', "P?'", "-'")
    """
    doubt = "≠" if changed else ""
    if unsure:
        doubt = "?"
    return letter(name) + doubt + (RESTS if rests else "")


def mark_of(labels: Labels, head: Head, *, changed: bool = False) -> str:
    """A head's letter by what it does among words, `?` if it is not sure, `'` if it rests."""
    return mark(
        str(labels.among_words[head.place]),
        unsure=bool(labels.unsure[head.place]),
        rests=bool(labels.rests[head.place]),
        changed=changed,
    )


def habit_called(name: str) -> str | None:
    """The words of the habit that has a name or letter; None if none has.

    >>> habit_called("k"), habit_called("next-3"), habit_called("next-word"), habit_called("K")
    ('the same few words, whatever the query', 'the next 3 words', None, None)
    """
    patterns = _PATTERN_STYLES.keys()
    habits = (style for habit, style in _STYLES.items() if habit not in patterns)
    named = {style.letter: style.words for style in habits}
    if name in _STYLES and name not in patterns:
        return _STYLES[name].words
    return named.get(name)


def words(name: str) -> str:
    """What a head with a pattern or habit attends to, in plain words."""
    return style_of(name).words if name else "no distinct habit"


def why_even_is_not(pattern: str) -> str:
    """Why heads that are even over all words do not follow `bag-of-words`; empty of others."""
    if pattern != "bag-of-words":
        return ""
    even = f"{letter('even')}, {words('even')}"
    return (
        "This pattern is of the word's own sentence alone. Attention that is even over both "
        f"sentences is at chance here: it is a habit ({even})."
    )


def check_no_habits(patterns: Sequence[object]) -> None:
    """Raises: OptionError for the name or letter of a habit, in place of a pattern's."""
    for pattern in patterns:
        habit = habit_called(pattern) if isinstance(pattern, str) else None
        if habit is not None and called(str(pattern), SHIPPED) is None:
            raise OptionError(
                f"'{pattern}' is a habit, and not a pattern: {habit}",
                "heads are not ranked by habits; attnscan heads lists the heads that have one, and "
                "the column among_words of its table names it",
            )


def paper_color(name: str) -> str:
    """The colour on paper of a pattern or habit; of none a pale grey."""
    return COLORS.get(name, OTHER_COLOR) if name else NO_HABIT_COLOR


def on_white(color: str, opacity: float) -> str:
    """What a colour looks like on white paper: `#808080` of black by a half."""
    mixed = (round(255 - opacity * (255 - value)) for value in _channels(color))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def readable_on(color: str) -> str:
    """White or ink, whichever stands out more against a colour."""
    return max(INK, "#ffffff", key=lambda text: contrast(text, color))


def contrast(color: str, ground: str) -> float:
    """The contrast of WCAG 2, from 1 to 21; text needs 4.5."""
    low, high = sorted((_luminance(color), _luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    red, green, blue = (_linear(value / 255) for value in _channels(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(share: float) -> float:
    """A channel's part of the light, of its value in [0, 1] in sRGB."""
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def _channels(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]
