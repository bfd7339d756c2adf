"""The command `attnscan similar`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.messages import reported
from attnscan.cli.options import (
    BatchTokens,
    Columns,
    Csv,
    DeviceOption,
    DtypeOption,
    FormatOption,
    Model,
    NoRelated,
    OnLongOption,
    Output,
    Pairs,
    Queries,
    Seed,
    SkipBad,
    Threshold,
    destination_of,
)
from attnscan.cli.pair_jobs import PairFiles
from attnscan.cli.study_jobs import similar_pairs
from attnscan.results.heads import check_heads_are_named
from attnscan.results.terms import QUERIES, THRESHOLD, WITHIN
from attnscan.scan.options import ScanOptions
from attnscan.views.pictures.look import Picture

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = ("attnscan similar --heads 0-2,1-8", "attnscan similar --matrix -o divergence.csv")


def similar(
    heads: Annotated[
        str | None, typer.Option("--heads", metavar="HEADS", help="Show those nearest to these: 2-0,6-11 or layer:2.")
    ] = None,
    nearest: Annotated[
        int, typer.Option("--nearest", metavar="N", min=1, help="How many of the nearest heads of each.")
    ] = 3,
    within: Annotated[
        float,
        typer.Option("--within", metavar="X", min=0, max=0.7, help="How far apart a group's heads may be, in nats."),
    ] = WITHIN,
    queries: Queries = QUERIES,
    matrix: Annotated[bool, typer.Option("--matrix", help="Rows of every head's divergence from every other.")] = False,
    pairs: Pairs = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    on_long: OnLongOption = "truncate",
    threshold: Threshold = THRESHOLD,
    model: Model = None,
    no_related: NoRelated = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Find heads that attend alike. The nearest of each, groups, and with -o FILE.svg a map of all."""
    with reported():
        if heads is not None:
            check_heads_are_named(heads)
        destination = destination_of(format, csv, output, draws=True)
        if matrix and destination.format == "table":
            raise typer.BadParameter("--matrix is for a file or for programs: give --csv, --format or -o")
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            related=not no_related,
            on_long=on_long,
            threshold=threshold,
            predictive="off",
            batch_tokens=batch_tokens,
            seed=seed,
        )
        files = PairFiles(pairs or [], columns.split(",") if columns else None, skip_bad)
        found = similar_pairs(options, files, queries, within)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal.similarity import similarity_view

            return similarity_view(found, width, heads, nearest)

        def picture(format: Picture) -> bytes:
            from attnscan.views.pictures.look import Look
            from attnscan.views.pictures.picture import similarity_picture

            return similarity_picture(found, Look(format))

        destination.emit(found.to_matrix if matrix else lambda: found.to_frame(nearest), view, picture)
