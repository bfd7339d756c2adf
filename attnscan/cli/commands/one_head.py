"""The commands about certain heads: `attnscan head`, `attnscan show`, `attnscan explain`."""

from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import input_lines
from attnscan.inputs.files import shown
from attnscan.results.choices import Side


def head(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    ablate: Annotated[
        bool, o.flag("--ablate", "Also switch each head off, and measure what the model loses.")
    ] = False,
    treebank: o.Treebank = None,
    held: o.Held = None,
) -> None:
    output, result = o.answer(context)
    from attnscan.views.terminal.card import cards_view

    above = input_lines(context.params, result.ranking.signature.pairs_read)
    above += [f"treebank  {shown(path)}" for path in treebank or ()]
    above += [f"held  {shown(path)}" for path in held or ()]
    output.write(
        result.to_frame, partial(cards_view, result), above=above, document=result.document
    )


def show(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    average: Annotated[bool, o.flag("--average", "Show the mean of the heads.")] = False,
    token: o.Token = None,
    from_sentence: Annotated[Side | None, o.option("Only queries of A or B.")] = None,
    to_sentence: Annotated[Side | None, o.option("Only keys of A or B.")] = None,
    window: o.Window = None,
    top: Annotated[
        int | None, o.option("List the N strongest weights instead of a map.", "N", min=1)
    ] = None,
) -> None:
    output, result = o.answer(context)
    from attnscan.views.terminal.head_weights import head_view

    output.write(
        result.to_frame,
        lambda width: head_view(result, width, top),
        above=input_lines(context.params),
    )


_PATTERN = "Explain this pattern: name, letter or FILE.py:FUNCTION. [default: each head's]"


def explain(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    token: o.Token = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", "-p", metavar="PATTERN", help=_PATTERN)
    ] = None,
) -> None:
    output, result = o.answer(context)
    from attnscan.views.terminal.explanation import explanation_view

    above = input_lines(context.params, result.signature.pairs_read)
    output.write(result.to_frame, partial(explanation_view, result), above=above)
