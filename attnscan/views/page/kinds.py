"""The page of the kinds of attention of an encoder-decoder on one source and target, of which one is shown at a time.

Texts of a kind go by its name, a colon and their own ids; those of the first by their ids alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnscan.results.heads import HeadScores
from attnscan.views.page.frame import Page, PageOptions
from attnscan.views.page.page import InputPage, page, sentences_of
from attnscan.views.page.trees import shares


def kinds_page(results: Sequence[HeadScores], options: PageOptions) -> Page:
    """Every head of each kind of attention on one input, opened on the first kind; the page of a kind if it is alone.

    Raises: OptionError if the attention was not kept.
    """
    if len(results) == 1:
        return page(results[0], options)
    options = replace(options, inputs=len(results))
    pages = pages_of(results, options)
    if options.size is not None:
        sizes = shares(pages, options.size, neurons=options.neurons)
        pages = [replace(own, options=replace(options, size=size)) for own, size in zip(pages, sizes, strict=True)]
    packed = [own.packed() for own in pages]
    every = [
        own.subject.facts(table) | own.facts_of_input(cargo)
        for own, (cargo, table, _) in zip(pages, packed, strict=True)
    ]
    texts = {
        f"{facts['attention']}:{name}": text
        for own, (cargo, table, _), facts in zip(pages[1:], packed[1:], every[1:], strict=True)
        for name, text in own.texts_of_input(cargo, table).items()
    }
    cargo, table, _ = packed[0]
    whole = replace(pages[0], texts=texts, more=_kinds(every))
    notes = tuple(
        f"of {facts['attention']} attention, {note}"
        for facts, (_, _, own) in zip(every, packed, strict=True)
        for note in own
    )
    neurons = any(cargo.neurons for cargo, _, _ in packed)
    return Page(whole.html(cargo, table, notes, neurons=neurons), notes)


def pages_of(results: Sequence[HeadScores], options: PageOptions) -> list[InputPage]:
    """Each kind's page as it would be alone, with the switch between all, and source and target above the views."""
    pages = [InputPage.of(result, options) for result in results]
    kinds = tuple(own.subject.kind.word for own in pages)
    both = next((sentences_of(own.attention) for own in pages if own.attention.source), ())
    return [replace(own, kind="kinds", sentences=both, subject=replace(own.subject, kinds=kinds)) for own in pages]


def _kinds(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the scripts read of each kind: what is not the same of all."""
    own = {name for facts in every for name in facts if any(other.get(name) != facts[name] for other in every)}
    return {"kinds": [{name: facts[name] for name in own if name in facts} for facts in every]}
