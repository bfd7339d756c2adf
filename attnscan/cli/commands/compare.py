"""The command `attnscan compare`."""

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
    NoRelated,
    OnLongOption,
    Output,
    Pairs,
    Patterns,
    Seed,
    SkipBad,
    Threshold,
    UnitOption,
    destination_of,
)
from attnscan.cli.pair_jobs import PairFiles
from attnscan.cli.study_jobs import compare_pairs
from attnscan.results.terms import THRESHOLD, Match
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.pictures.look import Picture

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = (
    "attnscan compare bundled bundled --pattern next-word",
    "attnscan compare bundled bundled --match nearest --csv > same.csv",
)


def compare(
    model_a: Annotated[str, typer.Argument(metavar="MODEL_A", help="A hub id, a directory, or 'bundled'.")],
    model_b: Annotated[str, typer.Argument(metavar="MODEL_B", help="Another, such as A fine-tuned.")],
    match: Annotated[
        Match, typer.Option("--match", help="Hold heads of one place against each other, or the most alike.")
    ] = "place",
    pattern: Patterns = None,
    pairs: Pairs = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    on_long: OnLongOption = "truncate",
    threshold: Threshold = THRESHOLD,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Compare two models' heads on the same pairs. What differs, and by how much?"""
    with reported():
        if "predictive" in (pattern or ()):
            raise typer.BadParameter("predictive is not compared: each model has its own idea of what it is")
        destination = destination_of(format, csv, output, draws=True)
        options = ScanOptions(
            device=device,
            dtype=dtype,
            unit=unit,
            related=not no_related,
            on_long=on_long,
            threshold=threshold,
            predictive="off",
            batch_tokens=batch_tokens,
            seed=seed,
            patterns=tuple(each for each in PATTERNS if each.target is not None),
        )
        files = PairFiles(pairs or [], columns.split(",") if columns else None, skip_bad)
        found = compare_pairs((model_a, model_b), options, files, match)
        names = pattern or list(found.patterns)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal.comparison import comparison_view

            return comparison_view(found, names, width)

        def picture(format: Picture) -> bytes:
            from attnscan.views.pictures.look import Look
            from attnscan.views.pictures.picture import comparison_picture

            return comparison_picture(found, names, Look(format))

        destination.emit(lambda: found.to_frame(names), view, picture)
