"""The command `attnscan heads`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.messages import reported
from attnscan.cli.options import (
    BatchTokens,
    BlockPairs,
    Columns,
    Csv,
    DeviceOption,
    DtypeOption,
    EngineOption,
    FormatOption,
    Model,
    NoRelated,
    OnLongOption,
    Output,
    Pairs,
    Patterns,
    PredictiveOption,
    PredictiveWords,
    RayAddress,
    Seed,
    SkipBad,
    UnitOption,
    WithoutDelimiters,
    WorkerCpus,
    Workers,
    check_apart,
    cluster_of,
    destination_of,
)
from attnscan.cli.pair_jobs import PairFiles, ScanFiles, scan_files, scan_files_on
from attnscan.results.files import check_writable
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERNS

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = (
    "attnscan heads --pattern delimiter --top 5",
    "attnscan heads --pattern next-word --csv > heads.csv",
)


def heads(
    pattern: Patterns = None,
    pairs: Pairs = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    on_long: OnLongOption = "truncate",
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="How many heads of each pattern. [default: 10 or 5]")
    ] = None,
    without_delimiters: WithoutDelimiters = False,
    model: Model = None,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    predictive_pairs: Annotated[
        int, typer.Option("--predictive-pairs", metavar="N", min=1, help="How many pairs to ask it about.")
    ] = 16,
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Keep the sums here, and go on from them.")
    ] = None,
    per_pair: Annotated[
        Path | None,
        typer.Option("--per-pair", metavar="FILE.parquet", help="Write every pair's scores; on Ray, a directory."),
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.parquet", help="Rank by what --per-pair wrote.")
    ] = None,
    engine: EngineOption = "local",
    ray_address: RayAddress = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = None,
    block_pairs: BlockPairs = None,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Rank heads for patterns over many pairs. Without --pairs, over those that come along."""
    with reported():
        if from_file is not None and (pairs or model or state or per_pair):
            raise typer.BadParameter("--from needs no pairs and no model, and has nothing to keep")
        if per_pair is not None and state is not None:
            raise typer.BadParameter("--per-pair is written whole, and so cannot go on from a --state")
        cluster = cluster_of(engine, ray_address, workers, worker_cpus, block_pairs)
        if cluster is not None and (from_file is not None or not pairs):
            raise typer.BadParameter("--engine ray is for files of pairs: name them with --pairs")
        if cluster is not None and "-" in (pairs or ()):
            raise typer.BadParameter("--engine ray cannot read '-': name files that all machines can read")
        if cluster is not None and state is not None:
            raise typer.BadParameter("--engine ray goes on by itself when a machine dies: leave out --state")
        check_apart([state, per_pair, output], [*(pairs or []), from_file])
        destination = destination_of(format, csv, output)
        chosen = [each for each in PATTERNS if not pattern or each.id in pattern]
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            unit=unit,
            related=not no_related,
            on_long=on_long,
            batch_tokens=batch_tokens,
            predictive=predictive,
            predictive_words=predictive_words,
            predictive_pairs=predictive_pairs,
            seed=seed,
            patterns=tuple(chosen),
        )
        for path in (state, per_pair if cluster is None else None):
            if path is not None:
                check_writable(path)
        if from_file is not None:
            from attnscan.scan.per_pair import rank_file

            result, interrupted = rank_file(from_file, pattern or ()), False
        else:
            files = ScanFiles(
                PairFiles(pairs or [], columns.split(",") if columns else None, skip_bad), state, per_pair
            )
            scanned = scan_files(options, files) if cluster is None else scan_files_on(cluster, options, files)
            result, interrupted = scanned
        names = pattern or result.scores.patterns
        shown = top or (10 if pattern else 5)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal.ranking import ranking_view

            return ranking_view(result, names, shown, width, without_delimiters)

        destination.emit(lambda: result.to_frame(names, top, without_delimiters=without_delimiters), view)
        if interrupted:
            raise typer.Exit(130)
