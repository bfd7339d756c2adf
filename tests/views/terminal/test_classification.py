"""What a person sees: at 80 and 120 columns, with and without colour, for any model and any text."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from one_run import classify
from small_results import result_of

from attnscan.inputs.pairs import Pair
from attnscan.inputs.weights import SavedWeights
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.labels import STAYS
from attnscan.scan.one_input import classify_weights
from attnscan.scan.options import ScanOptions
from attnscan.views.terminal.classification import all_heads_view, classification_view
from attnscan.views.terminal.parts import render

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def article() -> Classification:
    pair = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
    return classify(pair, ScanOptions(model="bundled"))


def _random(layers: int, heads: int, tokens: int = 6) -> Classification:
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
        classification_view(result, patterns, width),
        *([all_heads_view(result, patterns, list(result.scores.grid)[:2], width, False)] if width >= 80 else []),
    ):
        text = render(view, width)
        assert max(map(len, text.splitlines())) <= width
    if width >= 80:  # every head has its mark on the map
        rows = [line.split(None, 1)[1] for line in text_of_map(result, width)]
        narrow = 7 + 2 * heads > width  # no room for a letter and a question mark
        assert [len(row if narrow else re.sub("[ ?]", "", row)) for row in rows] == [heads] * layers


@pytest.mark.parametrize("width", [80, 120])
def test_the_names_of_columns_are_not_broken(article: Classification, width: int) -> None:
    patterns = article.scores.patterns
    lines = render(
        all_heads_view(article, patterns, [Head(0, 0), Head(0, 1), Head(0, 2)], width, False), width
    ).splitlines()
    assert all(any(f" {pattern}" in line for line in lines) for pattern in patterns)
    assert any("W predictive" in line for line in lines)


def text_of_map(result: Classification, width: int) -> list[str]:
    """The map's rows, without its title, ruler and legend."""
    lines = render(classification_view(result, result.scores.patterns, width), width).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Map")) + 2
    return lines[start : start + result.scores.grid.shape[0]]


def test_colour_adds_nothing_but_colour(article: Classification) -> None:
    view = classification_view(article, article.scores.patterns, 80)
    plain, coloured = render(view, 80), render(view, 80, "truecolor")
    assert "\x1b[" not in plain and "\x1b[" in coloured
    assert [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()] == plain.splitlines()


@pytest.mark.parametrize("carried", [True, False])
def test_the_map_shows_labels_on_words_small_where_the_head_parks(article: Classification, carried: bool) -> None:
    """By what heads carry, where that can be had."""
    assert article.carried is not None
    shown = article if carried else replace(article, carried=None)
    scores = article.carried.scores if carried else article.by_weight
    labels = scores.ranked_labels(scores.words_only, 0, article.threshold)
    letters = {
        "next-word": "N",
        "previous-word": "P",
        "identical": "I",
        "cross-sentence": "X",
        "bag-of-words": "B",
        "predictive": "W",
        "mixed": "·",
    }
    parking = scores.every_key.score[..., article.scores.patterns.index("delimiter")]
    sure, unsure = article.carried.stability if carried else article.stability_by_weight, 0
    assert sure is not None
    for layer, line in enumerate(text_of_map(shown, 80)):
        number, *marks = line.split()
        assert int(number) == layer
        for head, mark in enumerate(marks):
            expected = letters[str(labels[layer, head])]
            stays = sure.content_label[layer, head] >= STAYS
            asked = "" if stays or expected == "·" else "?"
            assert mark == (expected.lower() if parking[layer, head] >= 0.5 else expected) + asked
            unsure += bool(asked)
    assert 0 < unsure < scores.entropy.size / 2


def test_the_pattern_table_counts_labels_and_names_the_best_heads(article: Classification) -> None:
    text = render(classification_view(article, article.scores.patterns, 80), 80)
    table = text[text.index("pattern") : text.index("Heads by label")]
    rows = {line.split()[1]: line.split() for line in table.splitlines()[1:]}
    for pattern in ("next-word", "previous-word", "delimiter", "mixed"):
        assert int(rows[pattern][2]) == (article.carried_label == pattern).sum()
        assert int(rows[pattern][3]) == (article.label == pattern).sum()
    assert rows["previous-word"][5:7] == ["0-2", "1.00"]
    assert int(rows["predictive"][2]) == (article.carried_label == "predictive").sum()
    assert int(rows["delimiter"][2]) < int(rows["delimiter"][3]) / 10


def test_without_what_heads_carry_the_table_counts_labels_alone(article: Classification) -> None:
    text = render(classification_view(replace(article, carried=None), ["delimiter"], 80), 80)
    assert re.search(rf"D delimiter +{(article.label == 'delimiter').sum()} +– ", text)
    assert "carr" not in text and not re.search(r"pattern .*look", text)


def test_chosen_patterns_alone_and_as_many_heads_as_asked(article: Classification) -> None:
    text = render(classification_view(article, ["delimiter"], 80, top=7), 80)
    table = text[text.index("pattern") : text.index("Heads by label")]
    assert "next-word" not in table
    assert len(re.findall(r"\d+-\d+ \d\.\d\d", table)) == 7


def test_no_eligible_word_is_told_apart_from_not_measured() -> None:
    one = classify(Pair("strawberries"), ScanOptions(model="bundled"))
    text = render(classification_view(one, one.scores.patterns, 80), 80)
    assert re.search(r"X cross-sentence .* no word of this input is eligible", text)
    off = classify(Pair("strawberries"), ScanOptions(model="bundled", predictive="off"))
    text = render(classification_view(off, off.scores.patterns, 80), 80)
    assert re.search(r"W predictive .* not measured: switched off", text)


def test_all_heads_in_the_order_given(article: Classification) -> None:
    order = [article.scores.grid[number] for number in article.ranking("next-word")]
    text = render(all_heads_view(article, article.scores.patterns, order, 80, False), 80)
    rows = re.findall(r"^(\d+)-(\d+) ", text, re.MULTILINE)
    assert len(rows) == 72
    column = article.scores.every_key.score[..., 0]
    ranked = [column[int(layer), int(head)] for layer, head in rows]
    assert ranked == sorted(ranked, reverse=True)


def test_where_no_head_has_a_score_none_is_listed_and_why_is_said() -> None:
    nan = float("nan")
    result = result_of([[0.5, nan, nan, 0.1], [0.2, nan, nan, nan]])
    grid, patterns = result.scores.grid, result.scores.patterns
    lists = ((pattern, [grid[number] for number in result.ranking(pattern)]) for pattern in patterns)
    screens = {pattern: render(all_heads_view(result, [pattern], order, 80, False), 80) for pattern, order in lists}
    assert "0-0" in screens["next-word"] and "eligible" not in screens["next-word"]
    assert "head" not in screens["identical"].splitlines()[1] and "0-0" not in screens["identical"]
    assert "identical: no word of this input is eligible" in screens["identical"]
    assert (
        "0-1" not in screens["delimiter"] and "delimiter: no word is eligible for 1 of 2 heads" in screens["delimiter"]
    )
    both = render(all_heads_view(result, ["identical", "cross-sentence"], [], 80, False), 80)
    assert "identical, cross-sentence: no word of this input is eligible" in both


@settings(deadline=None, max_examples=draws(150))
@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=20))
def test_no_text_breaks_the_screen_or_reaches_the_terminal_as_a_command(token: str, model: str) -> None:
    result = _random(2, 2)
    units = (result.units[0], token, *result.units[2:])
    hostile = replace(result, units=units, signature=replace(result.signature, model=model))
    text = render(classification_view(hostile, hostile.scores.patterns, 80), 80)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert text.encode("utf-8")


def test_markup_in_a_sentence_is_text() -> None:
    result = _random(1, 1)
    shown = replace(result, units=("[CLS]", "[bold]", "[/bold]", ":smile:", "[red]x", "[SEP]"))
    text = render(classification_view(shown, shown.scores.patterns, 80), 80)
    assert "[CLS] [bold] [/bold] :smile: [red]x [SEP]" in text


def test_a_long_input_is_cut_on_screen_and_says_so() -> None:
    result = _random(1, 1, tokens=400)
    text = render(classification_view(result, result.scores.patterns, 80), 80)
    assert "400 tokens in all" in text
    assert len(text.splitlines()) < 40
