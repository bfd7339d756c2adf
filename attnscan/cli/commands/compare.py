"""The command `attnscan compare`."""

from __future__ import annotations

from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import Shown, destination_of, frame_of_pairs
from attnscan.results.grid import check_heads_are_named
from attnscan.results.terms import LEAST, Match

EXAMPLES = (
    "attnscan compare bundled bundled --pattern next-word",
    "attnscan compare bundled bundled --match nearest --csv > same.csv",
)


def compare(
    context: typer.Context,
    model_a: Annotated[str, typer.Argument(metavar="MODEL_A", help="A hub id, a directory, or 'bundled'.")],
    model_b: Annotated[str, typer.Argument(metavar="MODEL_B", help="The model to compare with, such as A fine-tuned.")],
    match: Annotated[
        Match, typer.Option("--match", help="Compare heads of the same place, or each with the most similar one.")
    ] = "place",
    least: Annotated[
        float,
        typer.Option("--least", metavar="X", min=0, max=1, help="Least difference of scores that survives."),
    ] = LEAST,
    pattern: o.Pattern = None,
    heads: Annotated[str | None, o.heads_option("List the differences of these heads: 2-0,6-11 or layer:2.")] = None,
    top: Annotated[int | None, o.top_option("List the N greatest differences of each pattern.")] = None,
) -> None:
    given = context.params
    if heads is not None:
        check_heads_are_named(heads)
    destination = destination_of(given, draws=True)
    from attnscan.views.terminal.comparison import comparison_view

    with running() as progress:
        result = attnscan.compare(**o.arguments_of("compare", given), progress=progress)
    some = None if heads is None else result.a.grid.select(heads)
    names = [known for known in result.patterns if not pattern or known in _named(pattern)]
    greatest = (result.chosen(name, some, 1) for name in names)
    best = next((chosen[0].name for chosen in greatest if chosen), None)
    command = () if best is None else ("profile", "--heads", best)
    surround = frame_of_pairs({**given, "model": model_b}, result.pairs, *command, heads=best or "")
    destination.emit(
        Shown(
            lambda: result.to_frame(names, some, top),
            lambda width: comparison_view(result, names, width, some, top),
            surround,
            result,
            names,
        )
    )


def _named(pattern: list[str]) -> list[str]:
    """The names of patterns in results."""
    from attnscan.api.arguments import patterns_of

    return patterns_of(pattern, None)[0]
