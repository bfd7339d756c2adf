"""The command `attnscan explain`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of

EXAMPLE = 'attnscan explain 0-2 "I went to the store." --token store'
_PATTERN = "Explain this pattern: name, letter or FILE.py:FUNCTION. [default: each head's]"
Pattern = Annotated[str | None, typer.Option("--pattern", "-p", metavar="PATTERN", help=_PATTERN)]


def explain(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    token: o.Token = None,
    pattern: Pattern = None,
) -> None:
    given = context.params
    output = output_of(given)
    result = o.call("explain", given)
    from attnscan.views.terminal.explanation import explanation_view

    if a is not None:  # one input is an anecdote
        then = next_command({**given, "alignments": None}, "head", result.heads[0].name, texts=())
    else:
        then = next_command(given, "ablate", *(["--each"] if "all" in heads else ["--heads", heads]))
    output.write(
        result.to_frame,
        partial(explanation_view, result),
        above=about(given, result.signature.pairs_read),
        then=then,
        document=result.to_dict,
    )
