"""The command `attnscan explain`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of

EXAMPLES = (
    'attnscan explain 0-2 "I went to the store." --token store',
    'attnscan explain 0-2,1-8 "I went to the store." --csv > explained.csv',
)


def explain(
    context: typer.Context,
    heads: o.HeadsArgument,
    a: o.A = None,
    b: o.B = None,
    token: o.Token = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            "-p",
            metavar="PATTERN",
            callback=lambda name: None if name is None else o.pattern_name(name),
            autocompletion=o.complete_patterns,
            help="Explain this pattern: name, letter or FILE.py:FUNCTION. [default: each head's]",
        ),
    ] = None,
) -> None:
    given = context.params
    output = output_of(given)
    result = o.call("explain", given)
    from attnscan.views.terminal.explanation import explanation_view

    if a is not None:  # one input is an anecdote
        then = next_command(given, "head", result.heads[0].name, heads=heads, texts=(), links=False)
    else:
        without = ("ablate", "--each") if "all" in heads else ("ablate", "--heads", heads)
        then = next_command(given, *without, heads=heads)
    output.write(
        result.to_frame,
        partial(explanation_view, result),
        above=about(given, result.signature.pairs_read),
        then=then,
        document=result.to_dict,
    )
