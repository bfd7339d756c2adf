"""The command `attnscan similar`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.terms import QUERIES, WITHIN

EXAMPLES = ("attnscan similar --heads 0-2,1-8", "attnscan similar --matrix -o divergence.csv")


def similar(
    context: typer.Context,
    heads: Annotated[str | None, o.heads_option("List the nearest heads of these: 2-0,6-11 or layer:2.")] = None,
    nearest: Annotated[
        int, typer.Option("--nearest", metavar="N", min=1, help="List the N nearest heads of each.")
    ] = 3,
    within: Annotated[
        float,
        typer.Option("--within", metavar="X", min=0, max=0.7, help="Largest mean divergence within a group, in nats."),
    ] = WITHIN,
    queries: Annotated[
        int, typer.Option("--queries", metavar="N", min=1, help="Compare attention from N words of each input.")
    ] = QUERIES,
    matrix: Annotated[bool, typer.Option("--matrix", help="Write every head's divergence from every other.")] = False,
) -> None:
    given = context.params
    output = output_of(given, draws=True)
    if matrix and output.format == "table":
        raise typer.BadParameter("--matrix is for a file or for programs: give --csv, --format or -o")
    result = o.call("similar", given)
    from attnscan.views.terminal.comparison import similarity_view

    chosen = None if heads is None else result.scores.grid.select(heads)
    first = None if chosen is None else result.scores.grid.index(chosen[0])
    alike = result.closest(1)[0] if first is None else (first, *result.nearest(first, 1))
    named = ",".join(result.heads[number].name for number in alike)
    output.write(
        lambda: result.to_matrix(chosen) if matrix else result.to_frame(nearest, chosen),
        lambda width: similarity_view(result, width, heads, nearest),
        above=about(given, result.signature.pairs_read),
        then=next_command(given, "profile", "--heads", named, heads=named),
        draw=o.drawing(result),
    )
