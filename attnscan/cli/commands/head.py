"""The command `attnscan head`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import flattened
from attnscan.cli.destination import FileRole, Shown
from attnscan.cli.options import (
    TREEBANK,
    HeadsArgument,
    OfOneAttention,
    PairFiles,
    SentenceA,
    SentenceB,
    Where,
)
from attnscan.cli.screen_frame import ScreenFrame, about_input, about_pairs, options_of
from attnscan.inputs.read import shown
from attnscan.results.card import Card
from attnscan.results.grid import check_heads_are_named
from attnscan.run.reading import FilePairs, OnePair, Pairs
from attnscan.run.requests import LookAt
from attnscan.scan.options import ScanOptions

_SHORT = 140  # characters of sentences that are typed again
EXAMPLES = (
    "attnscan head 3-4",
    'attnscan head 0-2,1-8 "I went to the store." "The store was shut."',
)


@flattened
def head(
    *,
    heads: Annotated[str, HeadsArgument],
    a: SentenceA = None,
    b: SentenceB = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Also switch each head off, and measure what the model loses.")
    ] = False,
    treebank: Annotated[list[str] | None, TREEBANK, FileRole.READ] = None,
    files: PairFiles,
    of: OfOneAttention,
    scan: ScanOptions = ScanOptions(predictive="off"),
    where: Where,
) -> None:
    check_heads_are_named(heads)
    if a is not None and files.pairs:
        raise typer.BadParameter("give a sentence, or two, or --pairs, but not both")
    if a is not None:
        files.check_unused()
    if a is not None and ablate:
        raise typer.BadParameter("--ablate needs more than one input: name --pairs, or leave out the sentences")
    of, destination = of.resolved(heads), where.destination()
    kind = of.kinds[0]
    if treebank and kind != "encoder":
        raise typer.BadParameter(f"--treebank is of an encoder's attention, and {heads} is of another: leave it out")
    _, options = of.options(replace(scan, on_long=files.when_long(many=a is None), labelled=True), kind, None)
    trees = FilePairs(tuple(treebank), skip_bad=files.skip_bad) if treebank else None
    result = answered(LookAt(_pairs(a, b, files, of), options, None, heads, ablate, trees))
    from attnscan.views.terminal.card import cards_view

    first = result.cards[0]
    above, sentences = about_input(a, b), tuple(text for text in (a, b) if text is not None)
    if a is None:
        above, sentences = about_pairs(files.paths, result.ranking.signature.pairs_read), _shortest(first)
    above += (f"treebank  {', '.join(map(shown, treebank))}",) if treebank else ()
    name = first.head.name
    command, options_then = ("show", name), options_of(scan.model, of.typed(name, links=a is not None))
    if not sentences or sum(map(len, sentences)) > _SHORT:
        command, sentences = ("explain", name), ()
        options_then = options_of(scan.model, (*files.typed(), *of.typed(name)))
    surround = ScreenFrame(above, command, sentences, options_then)
    destination.emit(Shown(result.to_frame, partial(cards_view, result), surround, document=result.document))


def _pairs(a: str | None, b: str | None, files: PairFiles, of: OfOneAttention) -> Pairs:
    kind = of.kinds[0]
    if a is None:
        return of.pairs(files.source(), kind)
    from attnscan.inputs.sentence import Pair

    return OnePair(of.pair(Pair(a, b), kind))


def _shortest(card: Card) -> tuple[str, ...]:
    """The shortest of the inputs in which a head does most what it does; none if there is none."""
    examples = (example.sentences for example in card.look.examples)
    return min(examples, key=lambda texts: len("".join(texts)), default=())
