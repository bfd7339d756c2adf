"""The page of many pairs: which head does what over all of them, how sure that is, scores and profiles with errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnscan.results.grid import Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED
from attnscan.safe_text import plain
from attnscan.views.page.cargo import strongest_first
from attnscan.views.page.frame import NOTES, Page, PageOptions, Subject, html_of, left_out_of, texts_of
from attnscan.views.page.profiles import profiles_of_pairs
from attnscan.views.page.table import Table, readings_of_pairs, tables
from attnscan.views.summary import label_notes, ranked_by


def corpus_page(result: Ranking, options: PageOptions, live: Mapping[str, Any] | None = None) -> Page:
    """`live` is what its scripts know of a server. Raises: OptionError if the ranking has no labels."""
    readings = readings_of_pairs(result)
    names = {reading.name for reading in readings}
    why = dict.fromkeys(("weight", "words"), "this page was made by what heads carry alone (--norm)")
    why |= dict.fromkeys(("carried", "carried-words"), "what heads of this architecture carry cannot be told")
    not_measured = {"predictive": "the model was not asked"} if result.signature.predictive == "off" else {}
    subject = Subject(result.signature, readings, {name: why[name] for name in why if name not in names}, not_measured)
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
    lines = (*label_notes(result), ranked_by(result))
    frame = subject.frame(table, notes) | {
        "subtitle": result.signature.counts,
        "notes": [plain(line) for line in lines if line],
        "texts": texts_of(table, profiles_of_pairs(result.profile)),
        "why_not_carried": subject.why_not.get("carried", ""),
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
    order = strongest_first(labels.scores)
    return next((head for head in order if labels.content_label[head.place] != MIXED), order[0])
