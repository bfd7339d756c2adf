"""What a person sees: at 80 and 120 columns, with and without colour, for any model and any text."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from one_run import classify
from rich.console import Group
from small_results import doing, result_of

from attnscan.cli.output import ScreenFrame
from attnscan.inputs.sentence import Pair
from attnscan.inputs.weights import SavedWeights
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.scan.one_input import classify_weights
from attnscan.scan.options import ScanOptions
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import letter
from attnscan.views.terminal.heads import all_heads_view, classification_view
from attnscan.views.terminal.parts import render

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def article() -> HeadScores:
    pair = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
    return classify(pair, ScanOptions(model="bundled"))


@cache
def _random(layers: int, heads: int, tokens: int = 6) -> HeadScores:
    rng = np.random.default_rng(0)
    weights = rng.random((layers, heads, tokens, tokens), dtype=np.float32) ** 8 + 1e-6
    weights /= weights.sum(-1, keepdims=True)
    names = ("[CLS]", *["word"] * (tokens - 2), "[SEP]")
    special = (True, *[False] * (tokens - 2), True)
    saved = SavedWeights(weights, names, (0,) * tokens, special, (False,) * tokens)
    return classify_weights(saved, "random", ScanOptions())


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (12, 12), (24, 16), (2, 1), (32, 32), (48, 64)])
def test_no_line_is_wider_than_the_screen(width: int, layers: int, heads: int) -> None:
    result = _random(layers, heads)
    patterns = result.scores.patterns
    for view in (
        classification_view(result, width),
        *([all_heads_view(result, patterns, list(result.scores.grid)[:2], width)] if width >= 80 else []),
    ):
        text = render(view, width)
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_the_names_of_columns_are_not_broken(article: HeadScores, width: int) -> None:
    patterns = article.scores.patterns
    lines = render(all_heads_view(article, patterns, [Head(0, 0), Head(0, 1), Head(0, 2)], width), width).splitlines()
    assert all(any(f" {pattern}" in line for line in lines) for pattern in patterns)
    assert any("W predictive" in line for line in lines)


def test_colour_adds_nothing_but_colour(article: HeadScores) -> None:
    view = classification_view(article, 80)
    plain, coloured = render(view, 80), render(view, 80, "truecolor")
    assert "\x1b[" not in plain and "\x1b[" in coloured
    assert [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()] == plain.splitlines()


def test_one_of_several_inputs_has_its_number_and_no_map(article: HeadScores) -> None:
    text = render(classification_view(article, 80, nth=7), 80)
    assert text.startswith("input 7\nA [CLS] i went") and "P the previous word" in text and "layers down" not in text


def test_a_list_has_what_heads_do_as_tables_name_it(article: HeadScores) -> None:
    heads, labels = list(article.scores.grid)[:12], article.labels
    lines = render(all_heads_view(article, ["next-word"], heads, 80, top=9), 80).splitlines()
    rows = [line for line in lines if re.match(r"0-\d", line)]
    assert [row.split()[0] for row in rows] == [head.name for head in heads[:9]]
    for head, row in zip(heads, rows, strict=False):
        label, also = str(labels.label[head.place]), str(labels.among_words[head.place])
        asked = "?" if labels.unsure[head.place] else ""
        assert f"{letter(label)} {label}{asked}" in row and f"{letter(also)} {also}" in row
    assert "9 of 12 heads; --top 12 for all." in lines


def test_where_no_head_has_a_score_none_is_listed_and_why_is_said() -> None:
    nan = float("nan")
    result = result_of([[0.5, nan, nan, 0.1], [0.2, nan, nan, nan]])
    grid, patterns = result.scores.grid, result.scores.patterns
    lists = ((pattern, [grid[number] for number in result.order(pattern)]) for pattern in patterns)
    screens = {pattern: render(all_heads_view(result, [pattern], order, 80), 80) for pattern, order in lists}
    assert "0-0" in screens["next-word"] and "eligible" not in screens["next-word"]
    assert "head" not in screens["identical"].splitlines()[1] and "0-0" not in screens["identical"]
    assert "identical: no word of this input is eligible" in screens["identical"]
    assert (
        "0-1" not in screens["delimiter"] and "delimiter: no word is eligible for 1 of 2 heads" in screens["delimiter"]
    )
    both = render(all_heads_view(result, ["identical", "cross-sentence"], [], 80), 80)
    assert "identical, cross-sentence: no word of this input is eligible" in both


@settings(deadline=None, max_examples=draws(150))
@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=20))
def test_no_text_breaks_the_screen_or_reaches_the_terminal_as_a_command(token: str, model: str) -> None:
    result = _random(2, 2)
    units = (result.units[0], token, *result.units[2:])
    hostile = replace(result, units=units, signature=replace(result.signature, model=model))
    text = render(classification_view(hostile, 80), 80)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert text.encode("utf-8")


@pytest.mark.parametrize(("layers", "heads", "most"), [(6, 12, 34), (12, 12, 42)])
@pytest.mark.parametrize("kinds", [4, 14, 22])
@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_is_short_whatever_the_sentences(layers: int, heads: int, most: int, kinds: int, width: int) -> None:
    """With long sentences, and as long a command to try next as there may be."""
    ranking = doing(layers, heads, kinds)
    labels, words = ranking.labels, tuple(f"word{number}" for number in range(200))
    result = replace(ranking, units=(*words, *words), sentence=(0,) * 200 + (1,) * 200)
    sentences = " ".join(words[:7]), " ".join(words[7:14])
    frame = ScreenFrame((), ("head", "0-0"), sentences, ("--model", "a-model-of-mine"))
    shown = Group(classification_view(result, width), *frame.under(width))
    lines = render(shown, width).splitlines()
    assert len(lines) <= most and max(map(len, lines)) <= width
    assert any(line.endswith(" … 200 tokens in all") for line in lines) and "Next: " in "\n".join(lines[-3:])
    for _, kind in kinds_of(labels):
        assert f"{letter(kind.name)} " in "\n".join(lines)


def test_markup_in_a_sentence_is_text() -> None:
    result = _random(1, 1)
    shown = replace(result, units=("[CLS]", "[bold]", "[/bold]", ":smile:", "[red]x", "[SEP]"))
    text = render(classification_view(shown, 80), 80)
    assert "[CLS] [bold] [/bold] :smile: [red]x [SEP]" in text


def test_a_long_input_is_cut_on_screen_and_says_so() -> None:
    result = _random(1, 1, tokens=400)
    text = render(classification_view(result, 80), 80)
    assert "400 tokens in all" in text
    assert len(text.splitlines()) < 40
