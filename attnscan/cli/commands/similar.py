"""The command `attnscan similar`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.terms import QUERIES, WITHIN

EXAMPLE = "attnscan similar --heads 0-2,1-8"
_WITHIN = "Largest mean divergence within a group, in nats."
_QUERIES = "Compare attention from N words of each input."


def similar(
    context: typer.Context,
    heads: Annotated[str | None, o.option("List the nearest heads of these: 2-0,6-11 or layer:2.", "HEADS")] = None,
    nearest: Annotated[int, o.option("List the N nearest heads of each.", "N", min=1)] = 3,
    within: Annotated[float, o.option(_WITHIN, "X", min=0, max=0.7)] = WITHIN,
    queries: Annotated[int, o.option(_QUERIES, "N", min=1)] = QUERIES,
    matrix: Annotated[bool, o.flag("--matrix", "Write every head's divergence from every other.")] = False,
) -> None:
    given = context.params
    output = output_of(given, draws=True)
    if matrix and output.format == "table":
        raise typer.BadParameter("--matrix is for a file or for programs: give --csv, --format or -o")
    result = o.call("similar", given)
    from attnscan.views.terminal.comparison import similarity_view

    alike = heads or ",".join(result.grid[number].name for number in result.closest(1)[0])
    output.write(
        lambda: result.to_matrix(heads) if matrix else result.to_frame(nearest, heads),
        lambda width: similarity_view(result, width, heads, nearest),
        above=about(given, result.signature.pairs_read),
        then=next_command(given, "profile", "--heads", alike),
        draw=o.drawing(result),
    )
