"""Texts, measured, fit where they are put."""

from __future__ import annotations

from attnscan.views.pictures.lettering import SIZE, SMALLEST, flowed, lacking, shortened, shrunk, width_of, wrapped


def test_texts_fit_where_they_are_put() -> None:
    assert width_of("WWWW") > width_of("iiii") > 0
    assert width_of(shortened("strawberries and cream", 0.5)) <= 0.5
    assert all(width_of(line) <= 1.5 for line in wrapped("the quick brown fox jumps over the lazy dog", 1.5))
    assert flowed([2, 2, 5], 4) == [(0, 0), (2, 0), (0, 1)]


def test_a_title_shrinks_before_it_is_cut() -> None:
    title = "X cross-sentence"
    assert shrunk(title, 5) == (title, SIZE)
    text, size = shrunk(title, 0.8 * width_of(title))
    assert text == title and SMALLEST < size < SIZE and width_of(text, size) <= 0.8 * width_of(title)
    text, size = shrunk(title, 0.3 * width_of(title))
    assert text.endswith("…") and size == SMALLEST and width_of(text, size) <= 0.3 * width_of(title)


def test_letters_that_no_font_has_are_known() -> None:
    assert lacking("straw ##berries – ≈ é") == set()
    assert lacking("a\U0001faa9b\u16a0") == {"\U0001faa9", "\u16a0"}
