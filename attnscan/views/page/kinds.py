"""The page of an encoder-decoder on one source and target: of its kinds of attention, one is shown at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnscan.results.heads import HeadScores
from attnscan.views.page.frame import Page, PageOptions
from attnscan.views.page.page import PageInput, page_of


def kinds_page(results: Sequence[HeadScores], options: PageOptions) -> Page:
    """Every head of each kind of attention on one input, opened on the first kind; the page of a kind if it is alone.

    Raises: OptionError if the attention was not kept.
    """
    inputs = [PageInput.of(result, options.heads, inputs=len(results)) for result in results]
    if len(inputs) > 1:
        inputs = [replace(kind, facts=kind.facts | {"key": kind.facts["attention"]}) for kind in inputs]
    return page_of(inputs, options)
