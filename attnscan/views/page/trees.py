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
from attnscan.views.page.cargo import compressed, planes
from attnscan.views.page.frame import NOTES, Page, PageOptions
from attnscan.views.page.page import InputPage, shown
from attnscan.views.page.table import table_of

_LEAST_WEIGHTS = 400  # numbers that take as much room as what a head's weights need whatever their number


def trees_page(read: TreesRead, options: PageOptions) -> Page:
    """Every head on some sentences, each with its dependency tree over the head view, and what heads follow in all.

    It holds no queries and keys. Raises: OptionError if the attention was not kept.
    """
    options = replace(options, neurons=False, inputs=len(read.sentences))
    of_all = {
        "syntax": [_followed(read.syntax, head) for head in read.syntax.grid],
        "syntaxOf": f"{read.syntax.sentences:,} sentences, {read.syntax.signature.reading}",
    }
    pages = [_page_of(tree, options) for tree in read.sentences]
    pages = [replace(page, order=pages[0].order) for page in pages]
    if options.size is not None:
        sizes = shares(pages, options.size - len(json.dumps(of_all)))
        pages = [replace(page, options=replace(options, size=share)) for page, share in zip(pages, sizes, strict=True)]
    cargos, tables, _ = zip(*(page.packed() for page in pages), strict=True)
    texts, facts = dict(pages[0].texts), []
    for place, (page, cargo, table) in enumerate(zip(pages, cargos, tables, strict=True)):
        why_none = {pattern["id"]: pattern["whyNone"] for pattern in page.subject.patterns}
        facts.append({**page.facts_of_input(cargo), **page.more, "whyNone": why_none})
        if place:
            texts |= {f"{place}:{name}": text for name, text in page.texts_of_input(cargo, table).items()}
    whole = replace(pages[0], options=options, texts=texts, more={**pages[0].more, **of_all, "sentences": facts})
    notes, size, wanted = [], options.size, len(whole.order)
    held = sorted(len(cargo.weights) for cargo in cargos)
    if size is not None and held[0] < wanted:
        most = f"{held[0]}" if held[0] == held[-1] else f"{held[0]} to {held[-1]}"
        notes.append(f"the weights of {most} of {wanted} heads fit in {size / 1e6:g} MB, by sentence")
    html = whole.html(cargos[0], tables[0], notes, neurons=False)
    if size is not None and (needed := len(html.encode())) > size:
        notes.append(f"{len(held)} sentences do not fit in {size / 1e6:g} MB: the page takes {needed / 1e6:.2g} MB")
        html = whole.html(cargos[0], tables[0], notes, neurons=False)
    return Page(html, tuple(notes))


def _page_of(tree: ReadTree, options: PageOptions) -> InputPage:
    """The page of a sentence, with its tree and, in each reading, which word each word attends to most."""
    page = InputPage.of(tree.result, options)
    readings: list[By] = [by for by in get_args(By) if by not in page.subject.why_not]
    most = {f"most-{by}": compressed(planes((tree.most_attended(by) + 1).astype(np.uint16))) for by in readings}
    facts = {
        "number": tree.number,
        "text": plain(tree.sentence.text),
        "words": [shown(tree.sentence.word(word)) for word in range(len(tree.sentence.words or ()))],
        "wordOf": tree.owners,
        "heads": tree.sentence.tags["head"],
        "relations": [plain(str(relation)) for relation in tree.sentence.tags["deprel"]],
    }
    return replace(page, kind="trees", more={"tree": facts}, texts=most)


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


def _followed(syntax: Syntax, head: Head) -> str:
    """What a head follows in a treebank, with its numbers."""
    if head not in syntax.main_rows:
        return "no relation beyond fixed rules"
    best = syntax.main_rows[head]
    rule = f"the rule '{syntax.rule[best]}' for {syntax.rule_accuracy[best]:.2f}"
    row = plain(f"{syntax.rows[best].relation} {syntax.rows[best].direction}".replace("->", " → "))
    accuracy = syntax.accuracy[(*head.place, best)]
    return f"{plain(syntax.statements[head])}; {row} right for {accuracy:.2f}, {rule}"
