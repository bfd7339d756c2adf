"""The command `attnscan compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
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
    output = output_of(given, draws=True)
    result = o.call("compare", given)
    from attnscan.api.arguments import patterns_of
    from attnscan.views.terminal.comparison import comparison_view

    some = None if heads is None else result.a.grid.select(heads)
    names = [known for known in result.patterns if not pattern or known in patterns_of(pattern, None)[0]]
    greatest = (result.chosen(name, some, 1) for name in names)
    best = next((chosen[0].name for chosen in greatest if chosen), None)
    command = () if best is None else ("profile", "--heads", best)
    output.write(
        lambda: result.to_frame(names, some, top),
        lambda width: comparison_view(result, names, width, some, top),
        above=about(given, result.pairs),
        then=next_command({**given, "model": model_b}, *command, heads=best or ""),
        draw=o.drawing(result, names),
    )
