"""The page of `report`: one HTML file that shows every head, and asks nothing of any network."""

from __future__ import annotations

from attnscan.results.classification import Classification
from attnscan.results.ranking import Ranking
from attnscan.views.page.corpus import corpus_page
from attnscan.views.page.frame import Page, PageOptions
from attnscan.views.page.one_input import InputPage


def page(result: Classification | Ranking, options: PageOptions | None = None) -> Page:
    """Every head on one input or over many pairs, to look at in a browser.

    Of one input, scores and thumbnails are there for all heads; weights, queries and keys for as many as fit. Over many
    pairs there are labels, how sure they are, scores with errors and, if they were fitted, profiles. All but profiles
    is there by weight and, where that can be had, by what heads carry; it opens on what heads carry among words or,
    where that cannot be had, on their weights among words.
    Raises: OptionError if a classification's attention was not kept, or a ranking has no labels.
    """
    if isinstance(result, Ranking):
        return corpus_page(result, options or PageOptions())
    return InputPage.of(result, options or PageOptions()).made()
