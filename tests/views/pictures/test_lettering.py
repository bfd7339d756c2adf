"""Texts, measured, fit where they are put."""

from __future__ import annotations

from attnscan.views.pictures.lettering import flowed, shortened, width_of, wrapped


def test_texts_fit_where_they_are_put() -> None:
    assert width_of("WWWW") > width_of("iiii") > 0
    assert width_of(shortened("strawberries and cream", 0.5)) <= 0.5
    assert all(width_of(line) <= 1.5 for line in wrapped("the quick brown fox jumps over the lazy dog", 1.5))
    assert flowed([2, 2, 5], 4) == [(0, 0), (2, 0), (0, 1)]
