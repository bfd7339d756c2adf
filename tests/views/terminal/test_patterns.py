"""The page of patterns."""

from __future__ import annotations

from attnscan.views.terminal.patterns import patterns_text


def test_the_patterns_page_fits_eighty_columns_and_draws_nine() -> None:
    text = patterns_text()
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("[CLS]   the   cat   sat") == 9
