"""The page of `report`: one HTML file that shows every head, and asks nothing of any network."""

from __future__ import annotations

from attnscan.errors import OptionError
from attnscan.results.classification import Classification
from attnscan.results.grid import Heads
from attnscan.results.ranking import Ranking
from attnscan.views.page.corpus import corpus_page
from attnscan.views.page.frame import SIZE, Page, PageOptions
from attnscan.views.page.one_input import InputPage


def page_options(
    result: Classification | Ranking,
    heads: Heads | None = None,
    *,
    neurons: bool = True,
    megabytes: float | None = None,
) -> PageOptions:
    """What a result's page is to hold: some `heads` in any size, or else as many as fit into so many megabytes.

    Raises: OptionError for heads of many pairs, or if the attention was not kept; SelectionError for heads that are not
    there.
    """
    size = None if megabytes is None else int(megabytes * 1_000_000)
    if heads is None:
        return PageOptions(None, neurons, size or SIZE)
    if isinstance(result, Ranking):
        raise OptionError("a page of many pairs holds no head's weights", "leave out heads")
    return PageOptions(tuple(result.kept_attention().grid.select(heads)), neurons, size)


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
