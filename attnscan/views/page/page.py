"""The page of `report`: one HTML file that shows every head, and asks nothing of any network."""

from __future__ import annotations

from attnscan.results.classification import Classification
from attnscan.views.page.frame import Page, PageOptions
from attnscan.views.page.one_input import InputPage


def page(result: Classification, options: PageOptions | None = None) -> Page:
    """Every head of one input, to look at in a browser.

    Scores and thumbnails are there for all heads; weights, queries and keys for as many as fit. Each is there by weight
    and, where that can be had, by what heads carry. It opens on what heads carry among words or, where that cannot be
    had, on their weights among words.
    Raises: OptionError if the result's attention was not kept.
    """
    return InputPage.of(result, options or PageOptions()).made()
