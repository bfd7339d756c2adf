"""What screens and notebooks both tell, why something is not there, and in which colours."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from support.page_contents import made_up
from support.small_results import SIGNATURE, ranking_of

from attnscan.errors import OptionError
from attnscan.results.attention import Chosen
from attnscan.results.grid import Head
from attnscan.results.habits import HABITS
from attnscan.results.heads import HeadScores
from attnscan.results.label_rules import Scored
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.behaviour import why_unscored
from attnscan.views.notebook import heads_html
from attnscan.views.palette import (
    COLORS,
    HEAD_COLORS,
    INK,
    NO_HABIT_COLOR,
    OTHER_COLOR,
    RAMP,
    RESTS,
    SYNTAX_COLORS,
    check_no_habits,
    contrast,
    letter,
    on_white,
    readable_on,
    style_of,
)
from attnscan.views.terminal.heads import first_screen
from attnscan.views.terminal.parts import render

NAN = float("nan")


def test_why_no_head_has_a_score() -> None:
    scored = Scored("predictive")
    none = ranking_of((NAN, NAN), scored=scored)
    assert why_unscored(ranking_of((0.5, 0.5), scored=scored), "predictive") == ""
    assert why_unscored(none, "predictive") == "switched off"
    measured = replace(none, signature=replace(SIGNATURE, predictive="cpmi"))
    assert why_unscored(measured, "predictive") == "no word of these pairs is eligible"


def test_a_notebook_shows_the_screen_in_inline_styles(ranking: HeadScores) -> None:
    html = heads_html(ranking)
    text = unescape(re.sub("<[^>]*>", "", html))
    assert text.split() == render(first_screen(ranking, 88, "12 pairs"), 88).split()
    assert "color: " in html
    assert not [part for part in ("<script", "class=", "http", "url(", "src=") if part in html]


def test_a_notebook_without_labels_shows_the_best_heads_alone(ranking: HeadScores) -> None:
    html = heads_html(replace(ranking, labels_by={}))
    assert "95 % interval" in html and "strongest" not in html


def test_views_of_too_many_tokens_and_of_some_heads_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, attention = made_up(1, 2, 12)
    html = heads_html(result)
    assert html.startswith("<") and "<iframe" in html
    some = attention.only(Chosen(attention.grid, (0, 1), (Head(0, 1),)))
    assert "<iframe" not in heads_html(replace(result, attention=some))
    monkeypatch.setattr("attnscan.views.notebook.MOST_DRAWN", 11)
    assert "<iframe" not in heads_html(result)


def test_the_ramp_darkens_in_equal_steps() -> None:
    """Lightness, CIE L*, of each colour: the eye sees twice the weight twice as dark."""
    rgb = np.array([list(bytes.fromhex(color[1:])) for color in RAMP]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16
    assert np.abs(np.diff(lightness) - np.diff(lightness).mean()).max() < 0.5


_SYNTAX = [on_white(color, 0.5) for color in SYNTAX_COLORS.values()] + [*SYNTAX_COLORS.values()]


@pytest.mark.parametrize(
    "color", [*COLORS.values(), *HEAD_COLORS, NO_HABIT_COLOR, OTHER_COLOR, *RAMP, *_SYNTAX]
)
def test_text_on_every_colour_stands_out(color: str) -> None:
    assert contrast(readable_on(color), color) >= 4.5
    assert contrast("#ffffff", "#e69f00") < 4.5 < contrast(INK, "#e69f00")  # a control


NAMES = {*(pattern.id for pattern in PATTERNS), *HABITS}


def test_no_letter_has_two_meanings() -> None:
    letters = {letter(name) for name in (*NAMES, "")}
    assert len(letters) == len(NAMES) + 1 and RESTS not in letters


def test_every_kind_has_words() -> None:
    without = {name for name in NAMES if style_of(name).words == name}
    assert without == {"punctuation", "itself"}


@pytest.mark.parametrize(
    ("name", "says"),
    [("k", "'k' is a habit, and not a pattern: the same few words"), ("next-3", "the next 3 word")],
)
def test_habit_in_place_of_a_pattern_is_refused(name: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        check_no_habits([name])


def test_patterns_are_no_habits() -> None:
    check_no_habits(["next-word", "n", "B", "bag-of-words", PATTERNS[0], "no such pattern"])


def test_repr_counts_as_the_map_does_with_resting_heads_apart(ranking: HeadScores) -> None:
    labels = ranking.labels
    resting = int(labels.rests.sum())
    assert resting and f"{resting} of them rest on delimiter" in repr(ranking)
    for name in ("", "previous-word"):
        count = int((labels.among_words == name).sum())
        assert f", {count} {name or 'no distinct habit'}" in repr(ranking)
