"""The command `attnscan explain`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import Shown, destination_of, frame_of_input, frame_of_pairs

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
    destination = destination_of(given)
    from attnscan.views.terminal.explanation import explanation_view

    with running() as progress:
        result = attnscan.explain(**o.arguments_of("explain", given), progress=progress)
    if a is not None:  # one input is an anecdote
        first = result.heads[0].name
        surround = replace(frame_of_input(given, "head", first, heads=heads, links=False), sentences=())
    else:
        without = ("ablate", "--each") if "all" in heads else ("ablate", "--heads", heads)
        surround = frame_of_pairs(given, result.signature.pairs_read, *without, heads=heads)
    view = partial(explanation_view, result)
    destination.emit(Shown(result.to_frame, view, surround, document=result.to_dict))
