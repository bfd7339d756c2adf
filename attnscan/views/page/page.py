"""The page of `report`: one HTML file that shows every head, and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnscan.errors import OptionError
from attnscan.results.classification import Classification
from attnscan.results.grid import Head, Heads
from attnscan.results.ranking import Ranking
from attnscan.results.reading import By
from attnscan.results.scores import MIXED
from attnscan.safe_text import plain
from attnscan.views.behaviour import remarks, summary
from attnscan.views.page.cargo import strongest_first
from attnscan.views.page.frame import NOTES, SIZE, Page, PageOptions, Subject, html_of, left_out_of, texts_of
from attnscan.views.page.one_input import InputPage
from attnscan.views.page.table import Table, profiles_of_pairs, readings_of_pairs, tables
from attnscan.views.summary import ranked_by


def corpus_page(result: Ranking, options: PageOptions, live: Mapping[str, Any] | None = None) -> Page:
    """`live` is what its scripts know of a server. Raises: OptionError if the ranking has no labels."""
    readings = readings_of_pairs(result)
    why: dict[By, str] = {
        "weight": "this page was made by what heads carry alone (--by carried)",
        "carried": "what heads of this architecture carry cannot be told",
    }
    why_not = {by: why[by] for by in why if all(reading.labels.norm != (by == "carried") for reading in readings)}
    not_measured = {"predictive": "the model was not asked"} if result.signature.predictive == "off" else {}
    subject = Subject(result.signature, readings, why_not, not_measured)
    room = float("inf")
    for table in tables(readings):
        html = _html(result, subject, table, (), live)
        if options.size is not None:
            room = options.size - len(html.encode()) - NOTES
        if room >= 0:
            break
    notes = tuple(left_out_of(table, options.size, room))
    return Page(_html(result, subject, table, notes, live) if notes else html, notes)


def _html(result: Ranking, subject: Subject, table: Table, notes: Sequence[str], live: Mapping[str, Any] | None) -> str:
    lines = (summary(result), *remarks(result), ranked_by(result))
    frame = subject.frame(table, notes) | {
        "subtitle": result.signature.counts,
        "notes": [plain(line) for line in lines if line],
        "texts": texts_of(table, profiles_of_pairs(result.profile)),
    }
    facts = {
        "tokens": [],
        "rightToLeft": False,
        "best": _best(subject).name,
    }
    return html_of(frame, subject.facts(table) | facts, kind="pairs", live=live)


def _best(subject: Subject) -> Head:
    """The head that the page opens on: of those with a label, one that follows a pattern most."""
    labels = subject.usual.labels
    order, called = strongest_first(labels.scores), labels.called("out" if subject.usual.among_words else "in")
    return next((head for head in order if called[head.place] != MIXED), order[0])


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

    Of one input there are scores and thumbnails of all heads, and weights, queries and keys of as many as fit; over
    many pairs labels, how sure they are, scores with errors and, if fitted, profiles. It opens on what heads carry
    among words or, where that is not there, on their weights among words.
    Raises: OptionError if a classification's attention was not kept, or a ranking has no labels.
    """
    if isinstance(result, Ranking):
        return corpus_page(result, options or PageOptions())
    return InputPage.of(result, options or PageOptions()).made()
