"""The command `attnscan ablate`."""

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
    Patterns,
    PredictiveOption,
    Seed,
    SkipBad,
    Threshold,
    destination_of,
)
from attnscan.cli.pair_jobs import PairFiles
from attnscan.cli.study_jobs import AblationRequest, ablate_pairs
from attnscan.results.heads import check_heads_are_named
from attnscan.results.terms import DRAWS, MEASURES, THRESHOLD, By
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.pictures.look import Picture

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = (
    "attnscan ablate --pattern delimiter --pattern previous-word",
    "attnscan ablate --heads 0-2,1-8 --by mean --csv > worth.csv",
)


def _measures(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in MEASURES:
            raise typer.BadParameter(f"no measure '{name}': there are {', '.join(MEASURES)}")
    return list(dict.fromkeys(names or ()))


def ablate(
    pattern: Patterns = None,
    heads: Annotated[
        str | None,
        typer.Option("--heads", metavar="HEADS", help="Switch off 2-0,6-11 or layer:2, in place of patterns."),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Each head in turn; of --heads, or all.")] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Of each pattern the N best heads, not those of its label."),
    ] = None,
    by: Annotated[By, typer.Option("--by", help="Heads put out nothing, or their mean over all words.")] = "zero",
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="|".join(MEASURES),
            callback=_measures,
            help="May be repeated. [default: by the model's task heads, else cls]",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", min=2, help="How many sets of other heads to compare with.")
    ] = DRAWS,
    pairs: Pairs = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    on_long: OnLongOption = "truncate",
    threshold: Threshold = THRESHOLD,
    model: Model = None,
    no_related: NoRelated = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Switch heads off, and measure what the model loses. Random heads of the same layers stand beside."""
    with reported():
        if (heads is not None or each) and (pattern or top):
            raise typer.BadParameter("--pattern and --top choose by a scan: leave them out, or --heads and --each")
        if "predictive" in (pattern or ()) and predictive == "off":
            raise typer.BadParameter("--predictive off leaves no heads for --pattern predictive")
        if heads is not None:
            check_heads_are_named(heads)
        destination = destination_of(format, csv, output, draws=True)
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            related=not no_related,
            on_long=on_long,
            threshold=threshold,
            predictive="off" if heads is not None or each else predictive,
            batch_tokens=batch_tokens,
            seed=seed,
        )
        there = [each.id for each in PATTERNS if each.target is not None or predictive != "off"]
        names = tuple(name for name in there if not pattern or name in pattern)
        asked = AblationRequest(names, heads, each, top, by, draws, tuple(measure or ()))
        found = ablate_pairs(options, PairFiles(pairs or [], columns.split(",") if columns else None, skip_bad), asked)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal.ablation import ablation_view

            return ablation_view(found, width)

        def picture(format: Picture) -> bytes:
            from attnscan.views.pictures.look import Look
            from attnscan.views.pictures.picture import ablation_picture

            return ablation_picture(found, Look(format))

        destination.emit(found.to_frame, view, picture)
