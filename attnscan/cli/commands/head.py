"""The command `attnscan head`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.inputs.files import shown

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
    output = output_of(given)
    result = o.call("head", given)
    from attnscan.views.terminal.card import cards_view

    first = result.cards[0]
    name = first.head.name
    above = about(given, result.ranking.signature.pairs_read)
    above += (f"treebank  {', '.join(map(shown, treebank))}",) if treebank else ()
    inputs = [text for text in (a, b) if text is not None]
    if a is None:  # the shortest of the inputs in which the head does most what it does
        examples = (example.sentences for example in first.look.examples)
        inputs = list(min(examples, key=lambda texts: len("".join(texts)), default=()))
    if inputs and sum(map(len, inputs)) <= _SHORT:
        one_input = {**given, "pairs": None}
        then = next_command(one_input, "show", name, heads=name, texts=inputs, links=a is not None)
    else:
        then = next_command(given, "explain", name, heads=name, texts=())
    output.write(result.to_frame, partial(cards_view, result), above=above, then=then, document=result.document)
