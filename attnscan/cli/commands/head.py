"""The command `attnscan head`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import ScreenFrame, Shown, destination_of, frame_of_input, frame_of_pairs
from attnscan.inputs.read import shown

if TYPE_CHECKING:
    from attnscan.results.card import Card

_SHORT = 140  # characters of sentences that are typed again
EXAMPLES = (
    "attnscan head 3-4",
    'attnscan head 0-2,1-8 "I went to the store." "The store was shut."',
)


def head(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Also switch each head off, and measure what the model loses.")
    ] = False,
    treebank: o.Treebank = None,
) -> None:
    given = context.params
    destination = destination_of(given)
    from attnscan.views.terminal.card import cards_view

    with running() as progress:
        result = attnscan.head(**o.arguments_of("head", given), progress=progress)
    first = result.cards[0]
    name = first.head.name
    surround = frame_of_input(given, "show", name, heads=name, links=a is not None)
    if a is None:
        of_pairs = frame_of_pairs(given, result.ranking.signature.pairs_read, "explain", name, heads=name)
        surround = replace(surround, above=of_pairs.above, sentences=_shortest(first))
    if not surround.sentences or sum(map(len, surround.sentences)) > _SHORT:
        then = frame_of_pairs(given, 0, "explain", name, heads=name)
        surround = ScreenFrame(surround.above, then.command, (), then.options)
    if treebank:
        surround = replace(surround, above=(*surround.above, f"treebank  {', '.join(map(shown, treebank))}"))
    destination.emit(Shown(result.to_frame, partial(cards_view, result), surround, document=result.document))


def _shortest(card: Card) -> tuple[str, ...]:
    """The shortest of the inputs in which a head does most what it does; none if there is none."""
    examples = (example.sentences for example in card.look.examples)
    return min(examples, key=lambda texts: len("".join(texts)), default=())
