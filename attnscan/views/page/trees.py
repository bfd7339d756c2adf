"""The page of some sentences of a treebank with their trees: one is shown at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from attnscan.results.syntax import ReadTree, Syntax, TreesRead
from attnscan.results.terms import By, Head
from attnscan.text import plain
from attnscan.views.page.cargo import compressed, planes
from attnscan.views.page.frame import Page, PageOptions
from attnscan.views.page.page import PageInput, page_of, shown


def trees_page(read: TreesRead, options: PageOptions) -> Page:
    """Every head on some sentences, each with its dependency tree over the head view, and what heads follow in all.

    It holds no queries and keys. Raises: OptionError if the attention was not kept.
    """
    first = _input_of(read.sentences[0], options.heads, len(read.sentences))
    others = [_input_of(tree, first.order, len(read.sentences)) for tree in read.sentences[1:]]
    treebank = {
        "heads": [_followed(read.syntax, head) for head in read.syntax.grid],
        "of": f"{read.syntax.sentences:,} sentences, {read.syntax.signature.reading}",
    }
    return page_of([first, *others], replace(options, neurons=False), treebank=treebank)


def _input_of(tree: ReadTree, heads: Sequence[Head] | None, inputs: int) -> PageInput:
    """A sentence with its tree and, in each reading, which word each word attends to most."""
    held = PageInput.of(tree.result, heads, inputs=inputs)
    readings: list[By] = [by for by in get_args(By) if by not in held.facts["whyNot"]]
    most = {f"most-{by}": compressed(planes((tree.most_attended(by) + 1).astype(np.uint16))) for by in readings}
    facts = {
        "text": plain(tree.sentence.text),
        "words": [shown(tree.sentence.word(word)) for word in range(len(tree.sentence.words or ()))],
        "wordOf": tree.owners,
        "heads": tree.sentence.tags["head"],
        "relations": [plain(str(relation)) for relation in tree.sentence.tags["deprel"]],
    }
    return replace(held, facts=held.facts | {"key": str(tree.number), "tree": facts}, texts=held.texts | most)


def _followed(syntax: Syntax, head: Head) -> str:
    """What a head follows in a treebank, with its numbers."""
    if head not in syntax.main_rows:
        return "no relation beyond fixed rules"
    best = syntax.main_rows[head]
    rule = f"the rule '{syntax.rule[best]}' for {syntax.rule_accuracy[best]:.2f}"
    row = plain(f"{syntax.rows[best].relation} {syntax.rows[best].direction}".replace("->", " → "))
    accuracy = syntax.accuracy[(*head.place, best)]
    return f"{plain(syntax.statements[head])}; {row} right for {accuracy:.2f}, {rule}"
