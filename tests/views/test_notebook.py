"""What a notebook shows of many pairs: the screen, and the page below."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from pages import made_up

from attnscan import HeadScores, heads
from attnscan.results.attention import Chosen
from attnscan.results.terms import Head
from attnscan.views.notebook import heads_html
from attnscan.views.terminal.heads import first_screen
from attnscan.views.terminal.parts import render


@pytest.fixture(scope="module")
def ranking() -> HeadScores:
    pairs = [(f"The cat number {i} sat on {i % 7} mats.", f"A cat ran {i} times to the store.") for i in range(12)]
    return heads(pairs, model="bundled", predictive="off")


def test_it_is_the_screen_with_colours_and_inline_styles(ranking: HeadScores) -> None:
    html = heads_html(ranking)
    text = unescape(re.sub("<[^>]*>", "", html))
    assert text.split() == render(first_screen(ranking, 110, "12 pairs"), 110).split()
    assert "color: " in html and not any(part in html for part in ("<script", "class=", "http", "url(", "src="))


def test_without_labels_there_are_the_best_heads_alone(ranking: HeadScores) -> None:
    html = heads_html(replace(ranking, labels_by={}))
    assert "95 % interval" in html and "strongest" not in html


def test_views_of_too_many_tokens_and_of_some_heads_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    result, attention = made_up(1, 2, 12)
    html = heads_html(result)
    assert html.startswith("<") and "<iframe" in html
    some = attention.only(Chosen(attention.grid, (0, 1), (Head(0, 1),)))
    assert "<iframe" not in heads_html(replace(result, attention=some))
    monkeypatch.setattr("attnscan.views.notebook.MOST_DRAWN", 11)
    assert "<iframe" not in heads_html(result)
