"""The page of some sentences of a treebank: that of one input, of which each sentence can take the place, with trees.

A sentence's texts go by its place, a colon and their own ids; those of the first by their ids alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from attnscan.results.grid import Head
from attnscan.results.signature import By
from attnscan.results.syntax import Syntax
from attnscan.results.trees import ReadTree, TreesRead
from attnscan.safe_text import plain
from attnscan.views.page.cargo import Cargo, compressed, planes
from attnscan.views.page.frame import NOTES, Page, PageOptions
from attnscan.views.page.page import InputPage, shown
from attnscan.views.page.table import Table, table_of

_LEAST_WEIGHTS = 400  # numbers that take as much room as what a head's weights need whatever their number


def trees_page(read: TreesRead, options: PageOptions) -> Page:
    """Every head on some sentences, each with its dependency tree over the head view, and what heads follow in all.

    It holds no queries and keys. Raises: OptionError if the attention was not kept.
    """
    options = replace(options, neurons=False, inputs=len(read.sentences))
    first = _page_of(read.sentences[0], options)
    of_all = {
        "syntax": [said(read.syntax, head) for head in read.syntax.grid],
        "syntaxOf": f"{read.syntax.sentences:,} sentences, {read.syntax.signature.reading}",
    }
    pages = [first, *(replace(_page_of(tree, options), order=first.order) for tree in read.sentences[1:])]
    if options.size is not None:
        sizes = shares(pages, options.size - len(json.dumps(of_all)))
        pages = [replace(page, options=replace(options, size=share)) for page, share in zip(pages, sizes, strict=True)]
    packed = [page.packed()[:2] for page in pages]
    facts = [
        {**page.facts_of_input(cargo), **page.more, "whyNone": _why_none(page)}
        for page, (cargo, _) in zip(pages, packed, strict=True)
    ]
    texts = {
        f"{place}:{name}": text
        for place, (page, of_page) in enumerate(zip(pages, packed, strict=True))
        for name, text in page.texts_of_input(*of_page).items()
        if place
    }
    whole = replace(first, more={**first.more, **of_all, "sentences": facts}, texts={**first.texts, **texts})
    notes = _left_out(whole, *packed[0], [len(cargo.weights) for cargo, _ in packed])
    return Page(whole.html(*packed[0], notes, neurons=False), notes)


def _page_of(tree: ReadTree, options: PageOptions) -> InputPage:
    """The page of a sentence, with its tree and, in each reading, which word each word attends to most."""
    page = InputPage.of(tree.result, options)
    readings: list[By] = [by for by in get_args(By) if by not in page.subject.why_not]
    most = {by: planes((tree.most_attended(by) + 1).astype(np.uint16)) for by in readings}
    words = range(len(tree.sentence.words or ()))
    facts = {
        "number": tree.number,
        "text": plain(tree.sentence.text),
        "words": [shown(tree.sentence.word(word)) for word in words],
        "wordOf": tree.owners,
        "heads": tree.sentence.tags["head"],
        "relations": [plain(str(relation)) for relation in tree.sentence.tags["deprel"]],
    }
    return replace(
        page, kind="trees", more={"tree": facts}, texts={f"most-{by}": compressed(most[by]) for by in readings}
    )


def shares(pages: Sequence[InputPage], size: int, *, neurons: bool = False) -> list[int]:
    """How many bytes each page may take alone, so that all fit together, where they share their frame.

    What every head needs is there first; weights, which grow with the square of tokens, get the rest.
    """
    needs, frames = [], []
    for page in pages:
        cargo, table = page.cargo_of_every_head(), table_of(page.subject.readings)
        facts = len(json.dumps({**page.facts_of_input(cargo), **page.more}))
        needs.append(facts + sum(map(len, page.texts_of_input(cargo, table).values())) + NOTES)
        frames.append(len(page.html(cargo, table, (), neurons=neurons).encode()) - needs[-1] + NOTES)
    rest = max(0, size - max(frames) - sum(needs) - needs[0])
    parts = [len(page.attention.tokens) ** 2 + _LEAST_WEIGHTS for page in pages]
    return [frame + need + rest * part // sum(parts) for frame, need, part in zip(frames, needs, parts, strict=True)]


def _why_none(page: InputPage) -> dict[str, str]:
    return {pattern["id"]: pattern["whyNone"] for pattern in page.subject.patterns}


def _left_out(whole: InputPage, cargo: Cargo, table: Table, held: list[int]) -> tuple[str, ...]:
    """What was wanted and is not there, a line each."""
    notes, size, wanted = [], whole.options.size, len(whole.order)
    if size is not None and min(held) < wanted:
        most = f"{min(held)}" if min(held) == max(held) else f"{min(held)} to {max(held)}"
        notes.append(f"the weights of {most} of {wanted} heads fit in {size / 1e6:g} MB, by sentence")
    if size is not None and (needed := len(whole.html(cargo, table, notes, neurons=False).encode())) > size:
        notes.append(f"{len(held)} sentences do not fit in {size / 1e6:g} MB: the page takes {needed / 1e6:.2g} MB")
    return tuple(notes)


def said(syntax: Syntax, head: Head) -> str:
    """What a head follows in a treebank, with its numbers."""
    best = syntax.main_row(head)
    if best is not None:
        of_rows, accuracy = syntax.of_rows, syntax.accuracy[(*head.place, best)]
        rule = f"the rule '{of_rows.rule[best]}' for {of_rows.rule_accuracy[best]:.2f}"
        row = plain(f"{syntax.rows[best].relation} {syntax.rows[best].direction}".replace("->", " → "))
        return f"{plain(syntax.statements[head])}; {row} right for {accuracy:.2f}, {rule}"
    return "no relation beyond fixed rules"
