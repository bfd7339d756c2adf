"""The screens of `heads` and `classify`: at any width, with and without colour, for any text."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text
from support.command_line import A, B
from support.drawn_pictures import random_weights
from support.hypothesis_draws import draws
from support.small_results import SIGNATURE, WINNERS, doing, labels_of, ranking_of, result_of

import attnscan
from attnscan.results.heads import HeadScores
from attnscan.results.label_rules import Scored
from attnscan.results.signature import AttentionView
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import RESTS, letter, mark_of, words
from attnscan.views.terminal.heads import (
    _in_cell,
    all_heads_view,
    best_heads_view,
    first_screen,
)
from attnscan.views.terminal.parts import render

NAN = float("nan")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def _screen(ranking: HeadScores, width: int = 80) -> str:
    return render(first_screen(ranking, width, "7 pairs of pairs.csv"), width)


def _small(reading: AttentionView | None = None) -> HeadScores:
    labels = labels_of(
        winners=WINNERS, label_stability=[1, 0.5, 1, NAN, 0.9], reading=reading or AttentionView()
    )
    signature = replace(SIGNATURE, by=labels.reading.by, special=labels.reading.special)
    return HeadScores(signature, {signature.by: labels.scores}, {labels.reading: labels})


def test_the_screen_to_the_letter() -> None:
    screen = """\
7 pairs of pairs.csv · toy, 1 layers × 5 heads

2 of 5 heads follow a pattern, 2 have another habit, and 1 shows none that 7
pairs could tell from the average head. 1 head rests: more than half of its
attention is on special tokens.

                            heads  average  strongest: attention among words
ahead      N the next word      1     0.38  0-0 0.92
           n the next 3 words   1     0.20  0-1? 0.40
same       I the same words     1     0.26  0-4? 0.52
everywhere e all words evenly   1     0.50  0-2 0.80
rest       ' special tokens     1     0.28  0-4? 0.60

    0   1   2   3   4
 0  N   n?  e   -   I?'
layers down, heads across · - no distinct habit · ', grey: rests · ? not sure ·
without ?: sure of this corpus
"""
    assert _screen(_small()) == screen


def test_sure_across_groups_is_not_of_this_corpus_alone() -> None:
    small = _small()
    grouped = replace(small.labels, groups=5)
    assert "of this corpus" not in _screen(replace(small, labels_by={small.reading: grouped}))


def test_a_second_corpus_is_a_sentence_and_marks_of_what_changed() -> None:
    small = _small()
    other = labels_of(winners=(0, 1, -1, 2, 2))
    held = replace(small, labels_by={small.reading: other})
    screen = _screen(replace(small, held=replace(held, signature=replace(SIGNATURE, pairs_read=9))))
    assert "1 of 2 sure labels is the same on the 9 held pairs." in screen
    assert " 0  N   n?  e≠  -   I?'\n" in screen and "≠ another label there" in screen


def test_columns_of_a_second_corpus_have_its_label_and_share() -> None:
    small = _small()
    held = replace(small, labels_by={small.reading: labels_of(winners=(0, 1, -1, 2, 2))})
    frame = replace(small, held=held).to_frame()
    assert frame.columns[-2:].tolist() == ["held_label", "held_share"]
    assert frame["held_label"].tolist() == ["next-word", "next-3", "", "even", "delimiter"]
    assert frame["held_share"].round(3).fillna(-1).tolist() == [0.92, 0.4, 0.8, -1, 0.52]


@pytest.mark.parametrize(("cell", "marks"), [(4, "P?' "), (3, "P?'"), (2, "P?"), (1, "?")])
def test_mark_that_has_no_room_keeps_its_doubt(cell: int, marks: str) -> None:
    assert _in_cell(Text("P?'"), cell).plain == marks
    assert _in_cell(Text("P'"), cell).plain.strip() == ("P" if cell == 1 else "P'")


def test_another_reading_than_the_usual_one_is_named_once() -> None:
    first = _screen(_small(AttentionView("carried", "in"))).splitlines()
    assert (
        first[0] == "7 pairs of pairs.csv · toy, 1 layers × 5 heads · by what heads carry · special"
    )
    assert first[1] == "tokens in"


@pytest.mark.parametrize(("layers", "heads", "most"), [(6, 12, 34), (12, 12, 42)])
@pytest.mark.parametrize("kinds", [4, 14, 22])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("of_input", [False, True])
def test_the_screen_has_few_lines_and_every_letter_is_explained(
    layers: int, heads: int, most: int, kinds: int, width: int, of_input: bool
) -> None:
    """With long sentences."""
    ranking = doing(layers, heads, kinds)
    texts = [f"word{number}" for number in range(200)]
    if of_input:
        ranking = replace(ranking, units=(*texts, *texts), sentence=(0,) * 200 + (1,) * 200)
        screen = render(first_screen(ranking, width), width)
    else:
        screen = _screen(ranking, width)
    lines = screen.splitlines()
    assert len(lines) + 2 <= most  # with the next command below
    assert max(map(len, lines)) <= width
    for group, kind in kinds_of(ranking.labels):
        mark = RESTS if group == "rest" else letter(kind.name)
        assert f"{mark} " in screen
        assert words(kind.name)[:14] in screen or "…" in screen
    assert screen.count("?") >= layers * heads - 1  # all labels are unsure
    assert (" … 200 tokens in all" in screen) == of_input


def test_no_head_that_follows_or_rests_is_said_in_words() -> None:
    labels = labels_of([[0, 0, 0, 0]] * 5)
    said = " ".join(
        _screen(HeadScores(SIGNATURE, {"weight": labels.scores}, {labels.reading: labels})).split()
    )
    assert "0 of 5 heads follow a pattern, and 5 follow none." in said and "rest" not in said


def _best_screen(ranking: HeadScores, width: int = 80, top: int = 10) -> str:
    return render(best_heads_view(ranking, ranking.scores.patterns, top, width), width)


def test_a_row_says_what_a_score_is_worth() -> None:
    lines = _best_screen(ranking_of(pairs=12_345)).splitlines()
    row = next(line for line in lines if line.startswith("0-0"))
    assert row.split()[:9] == [
        "0-0",
        "0.500",
        "0.480–0.520",
        "≈",
        "0.010",
        "0.100",
        "0.444",
        "111,105",
        "12,345",
    ]
    assert next(line for line in lines if line.startswith("0-1")).split()[3] == "0.290"
    assert (
        " self " not in lines[1]
    )  # how much of a score is the word itself: of patterns of others alone
    lines = _best_screen(ranking_of(scored=Scored("identical", excludes_self=True))).splitlines()
    assert next(line for line in lines if line.startswith("0-0")).split()[5] == "0.375"


def test_a_bar_is_how_far_above_chance_a_score_is() -> None:
    """What may be chance has none.

    Chance is 0.1, and the standard error 0.01: the interval of 0.118 holds chance, that of 0.13
    does not.
    """
    lines = _best_screen(ranking_of((1.0, 0.55, 0.13, 0.118, 0.05), pairs=12_345), 120).splitlines()
    assert [line.count("█") for line in lines if line.startswith("0-")] == [30, 15, 1, 0, 0]


@pytest.mark.parametrize(
    ("scores", "top", "said"),
    [
        (
            (0.15, 0.2),
            10,
            "No head follows this pattern. Closest: 0-1, 0.11 above chance (a label needs 0.25 a",
        ),
        ((0.05, 0.04), 10, "Closest: 0-0, 0.06 below chance"),
        ((0.5, 0.4, 0.3), 2, "2 of 3 heads; --top 3 for all."),
    ],
)
def test_that_no_head_does_it_or_not_all_are_listed_is_said(
    scores: tuple[float, ...], top: int, said: str
) -> None:
    assert said in " ".join(_best_screen(ranking_of(scores), top=top).split())
    assert "--top" not in _best_screen(ranking_of(scores))


def test_a_split_ranking_says_by_which_pairs() -> None:
    whole = ranking_of(pairs=12_345)
    said = " ".join(_best_screen(replace(whole, ranked_by=whole.scores)).split())
    assert "Heads are ranked by 12,345 pairs; the scores are those of the other 12,345." in said


@pytest.fixture(scope="module")
def article() -> HeadScores:
    return attnscan.classify(A, B, model="bundled")


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (12, 12), (24, 16), (2, 1), (32, 32)])
def test_no_line_is_wider_than_the_screen(width: int, layers: int, heads: int) -> None:
    result = random_weights(layers, heads, 6)[0]
    patterns = result.scores.patterns
    for view in (
        first_screen(result, width),
        *(
            [all_heads_view(result, patterns, list(result.scores.grid)[:2], width)]
            if width >= 80
            else []
        ),
    ):
        text = render(view, width)
        assert max(map(len, text.splitlines())) <= width


def test_colour_adds_nothing_but_colour(article: HeadScores) -> None:
    view = first_screen(article, 80)
    plain = render(view, 80)
    coloured = render(view, 80, "truecolor")
    assert "\x1b[" not in plain and "\x1b[" in coloured
    assert [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()] == plain.splitlines()


def test_a_list_has_what_heads_do_as_tables_name_it(article: HeadScores) -> None:
    heads = list(article.scores.grid)[:12]
    labels = article.labels
    lines = render(all_heads_view(article, ["next-word"], heads, 80, top=9), 80).splitlines()
    rows = [line for line in lines if re.match(r"0-\d", line)]
    assert [row.split()[0] for row in rows] == [head.name for head in heads[:9]]
    for head, row in zip(heads, rows, strict=False):
        does = str(labels.among_words[head.place]) or "none"
        assert f"{mark_of(labels, head)} {does}" in row
        assert str(labels.label[head.place]) in row
    assert "9 of 12 heads; --top 12 for all." in lines


def test_where_no_head_has_a_score_none_is_listed_and_why_is_said() -> None:
    result = result_of([[0.5, NAN, NAN, 0.1], [0.2, NAN, NAN, NAN]])
    screens = {}
    for pattern in result.scores.patterns:
        order = [result.scores.grid[number] for number in result.order(pattern)]
        screens[pattern] = render(all_heads_view(result, [pattern], order, 80), 80)
    assert "0-0" in screens["next-word"] and "eligible" not in screens["next-word"]
    assert "head" not in screens["identical"].splitlines()[1] and "0-0" not in screens["identical"]
    assert "identical: no word of this input is eligible" in screens["identical"]
    assert "delimiter: no word is eligible for 1 of 2 heads" in screens["delimiter"]
    assert "0-1" not in screens["delimiter"]
    both = render(all_heads_view(result, ["identical", "cross-sentence"], [], 80), 80)
    assert "identical, cross-sentence: no word of this input is eligible" in both


@settings(deadline=None, max_examples=draws(150))
@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=20))
def test_no_text_breaks_the_screen_or_commands_the_terminal(token: str, model: str) -> None:
    result = random_weights(2, 2, 6)[0]
    units = (result.units[0], token, *result.units[2:])
    hostile = replace(result, units=units, signature=replace(result.signature, model=model))
    text = render(first_screen(hostile, 80), 80)
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text
    )
    assert text.encode("utf-8")


def test_markup_in_a_sentence_is_text() -> None:
    result = random_weights(1, 1, 6)[0]
    shown = replace(result, units=("[CLS]", "[bold]", "[/bold]", ":smile:", "[red]x", "[SEP]"))
    text = render(first_screen(shown, 80), 80)
    assert "[CLS] [bold] [/bold] :smile: [red]x [SEP]" in text
