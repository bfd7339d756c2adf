"""The command `attnscan similar`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from attnscan.cli.bars import working
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.options import PairFiles, ScanChoices, Threshold, Where
from attnscan.cli.screen_frame import ScreenFrame, about_pairs, options_of
from attnscan.cli.session import Passes, opened, tell
from attnscan.results.grid import check_heads_are_named
from attnscan.results.terms import QUERIES, THRESHOLD, WITHIN

EXAMPLES = ("attnscan similar --heads 0-2,1-8", "attnscan similar --matrix -o divergence.csv")


@flattened
def similar(
    *,
    heads: Annotated[
        str | None, typer.Option("--heads", metavar="HEADS", help="Those nearest to these alone: 2-0,6-11 or layer:2.")
    ] = None,
    nearest: Annotated[
        int, typer.Option("--nearest", metavar="N", min=1, help="How many of the nearest heads of each.")
    ] = 3,
    within: Annotated[
        float,
        typer.Option("--within", metavar="X", min=0, max=0.7, help="How far apart a group's heads may be, in nats."),
    ] = WITHIN,
    queries: Annotated[
        int, typer.Option("--queries", metavar="N", min=1, help="How many words of an input to compare attention by.")
    ] = QUERIES,
    matrix: Annotated[bool, typer.Option("--matrix", help="Rows of every head's divergence from every other.")] = False,
    files: PairFiles,
    threshold: Threshold = THRESHOLD,
    scan: Annotated[ScanChoices, Without("unit", "truncate", "predictive", "predictive_words", "predictive_pairs")],
    where: Where,
) -> None:
    if heads is not None:
        check_heads_are_named(heads)
    destination = where.destination(draws=True)
    if matrix and destination.format == "table":
        raise typer.BadParameter("--matrix is for a file or for programs: give --csv, --format or -o")
    options = scan.options(on_long=files.on_long, threshold=threshold, predictive="off")
    from attnscan.results.similarity import check_heads_can_be_grouped

    check_heads_can_be_grouped()
    passes = Passes(files)
    with opened(options) as scanner, working("comparing heads by pairs", passes.how_many) as step:
        from attnscan.studies import similarity

        chosen = None if heads is None else scanner.grid().select(heads)
        result = similarity.similar(
            scanner, passes.read(), queries, within, passes.on_bad, partial(step, "comparing heads by pairs")
        )
    tell(result.signature, bad=passes.bad, dtype=options.dtype)
    from attnscan.views.terminal.similarity import similarity_view

    one = None if chosen is None else result.scores.grid.index(chosen[0])
    alike = result.closest(1)[0] if one is None else (one, *result.nearest(one, 1))
    destination.emit(
        lambda: result.to_matrix(chosen) if matrix else result.to_frame(nearest, chosen),
        lambda width: similarity_view(result, width, heads, nearest),
        result,
        screen_frame=ScreenFrame(
            about_pairs(files.paths, result.signature.pairs_read),
            ("profile", "--heads", ",".join(result.heads[head].name for head in alike)),
            (),
            options_of(scan.model, files.typed()),
        ),
    )
