"""The command `attnscan compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.terms import LEAST, Match
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import with_own

EXAMPLE = "attnscan compare bundled bundled --pattern next-word"


def compare(
    context: typer.Context,
    model_a: Annotated[str, o.argument("A hub id, a directory, or 'bundled'.", "MODEL_A")],
    model_b: Annotated[str, o.argument("The model to compare with, such as A fine-tuned.", "MODEL_B")],
    match: Annotated[Match, o.option("Compare heads of the same place, or each with the most similar one.")] = "place",
    least: Annotated[float, o.option("Least difference of scores that survives.", "X", min=0, max=1)] = LEAST,
    pattern: o.Pattern = None,
    heads: Annotated[str | None, o.option("List the differences of these heads: 2-0,6-11 or layer:2.", "HEADS")] = None,
    top: Annotated[int | None, o.option("List the N greatest differences of each pattern.", "N", min=1)] = None,
) -> None:
    given = context.params
    output = output_of(given, draws=True)
    result = o.call("compare", given)
    from attnscan.views.terminal.comparison import comparison_view

    wanted, _ = with_own(pattern or (), ALL_PATTERNS)
    names = [known for known in result.patterns if known in wanted or not wanted]
    greatest = next((number for name in names for number in result.of(name, heads, 1).index), None)
    command = () if greatest is None else ("profile", "--heads", result.grid[greatest].name)
    output.write(
        lambda: result.to_frame(names, heads, top),
        lambda width: comparison_view(result, names, width, heads, top),
        above=about(given, result.pairs),
        then=next_command({**given, "model": model_b}, *command),
        draw=o.drawing(result, names),
    )
