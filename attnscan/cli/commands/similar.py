"""The command `attnscan similar`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import OfOneAttention, PairFiles, Where, heads_option
from attnscan.results.grid import check_heads_are_named
from attnscan.results.terms import QUERIES, WITHIN
from attnscan.run.requests import Similar
from attnscan.scan.options import ScanOptions

EXAMPLES = ("attnscan similar --heads 0-2,1-8", "attnscan similar --matrix -o divergence.csv")


@flattened
def similar(
    *,
    heads: Annotated[str | None, heads_option("List the nearest heads of these: 2-0,6-11 or layer:2.")] = None,
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
    files: PairFiles,
    of: OfOneAttention,
    scan: Annotated[ScanOptions, Without("unit", "words", "predictive", "predictive_words", "predictive_pairs")],
    where: Where,
) -> None:
    if heads is not None:
        check_heads_are_named(heads)
    of, destination = of.resolved(heads), where.destination(draws=True)
    if matrix and destination.format == "table":
        raise typer.BadParameter("--matrix is for a file or for programs: give --csv, --format or -o")
    kind = of.kinds[0]
    _, options = of.options(replace(scan, on_long=files.when_long(), predictive="off"), kind, None)
    result = answered(Similar(of.pairs(files.source(), kind), options, None, queries, within, heads))
    from attnscan.views.terminal.comparison import similarity_view

    chosen = None if heads is None else result.scores.grid.select(heads)
    first = None if chosen is None else result.scores.grid.index(chosen[0])
    alike = result.closest(1)[0] if first is None else (first, *result.nearest(first, 1))
    named = ",".join(result.heads[head].name for head in alike)
    more = of.typed(named)
    surround = files.frame(result.signature.pairs_read, scan.model, "profile", "--heads", named, more=more)
    destination.emit(
        Shown(
            lambda: result.to_matrix(chosen) if matrix else result.to_frame(nearest, chosen),
            lambda width: similarity_view(result, width, heads, nearest),
            surround,
            result,
        )
    )
