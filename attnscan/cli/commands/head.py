"""The command `attnscan head`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.inputs.files import shown

EXAMPLE = "attnscan head 3-4"


def head(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    ablate: Annotated[bool, o.flag("--ablate", "Also switch each head off, and measure what the model loses.")] = False,
    treebank: o.Treebank = None,
) -> None:
    given = context.params
    output = output_of(given)
    result = o.call("head", given)
    from attnscan.views.terminal.card import cards_view

    first, again = result.cards[0], given
    texts: Sequence[str | None] = (a, b)
    if a is None:  # the shortest of the inputs in which the head does most what it does
        examples = (example.sentences for example in first.look.examples)
        texts = min(examples, key=lambda texts: sum(map(len, texts)), default=())
        again = {**given, "pairs": None, "alignments": None}
    output.write(
        result.to_frame,
        partial(cards_view, result),
        above=[
            *about(given, result.ranking.signature.pairs_read),
            *(f"treebank  {shown(path)}" for path in treebank or ()),
        ],
        then=next_command(again, "show", first.head.name, texts=texts) if any(texts) else (),
        document=result.document,
    )
