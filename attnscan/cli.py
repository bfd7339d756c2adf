"""The command line: parse, call, print. Nothing is computed here, and torch is imported only to compute."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.arguments import (
    BatchTokens,
    Csv,
    DeviceOption,
    DtypeOption,
    FormatOption,
    Model,
    NoRelated,
    Output,
    Patterns,
    PredictiveOption,
    PredictiveWords,
    Seed,
    SentenceA,
    SentenceB,
    Truncate,
    UnitOption,
    WithoutDelimiters,
    destination_of,
)
from attnscan.jobs import ScanFiles, ask_dependencies, scan_files, score_file, score_pair
from attnscan.messages import reported
from attnscan.options import THRESHOLD, OnLong, ScanOptions
from attnscan.output import Destination, check_writable, encoded, write_stdout
from attnscan.patterns import PATTERNS

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

app = typer.Typer(
    name="attnscan",
    help="Find out which attention head of a BERT-family model does what.",
    epilog='Example: attnscan classify "I went to the store." "At the store, I bought fresh strawberries."',
    no_args_is_help=True,
    rich_markup_mode=None,  # its import takes longer than everything else that --help does
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every line
    app(prog_name="attnscan")


def _version(wanted: bool | None) -> None:
    if wanted:
        typer.echo(f"attnscan {attnscan.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    # None, not False: a value to check would make Typer import pydantic, which takes longer than `patterns` itself
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = None,
) -> None:
    pass


@app.command(epilog='Example: attnscan classify "The cat sat on the mat." "The cat lay on the rug." --csv > heads.csv')
def classify(
    a: SentenceA = None,
    b: SentenceB = None,
    model: Model = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE.npz", help="Score saved attention weights instead of a model."),
    ] = None,
    pattern: Patterns = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Rank every head.")] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="How many heads to show. [default: those that fit a line]"),
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="X", min=0, max=1, help="How far above chance a label's pattern must be.")
    ] = THRESHOLD,
    without_delimiters: WithoutDelimiters = False,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    batch_tokens: BatchTokens = 4096,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
    save_weights: Annotated[
        Path | None, typer.Option("--save-weights", metavar="FILE.npz", help="Save the attention weights as well.")
    ] = None,
) -> None:
    """Say what every head does on one input: one sentence, or a pair."""
    with reported():
        if (a is None) == (weights is None):
            raise typer.BadParameter("give a sentence, or two, or --weights FILE.npz, but not both")
        if weights is not None and (save_weights is not None or model is not None):
            raise typer.BadParameter("--weights needs no model and has nothing to save")
        if output is not None and output == save_weights:
            raise typer.BadParameter("-o and --save-weights name the same file")
        destination = destination_of(format, csv, output)
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            unit=unit,
            related=not no_related,
            on_long="truncate" if truncate else "error",
            threshold=threshold,
            predictive=predictive,
            predictive_words=predictive_words,
            batch_tokens=batch_tokens,
            seed=seed,
        )
        result = score_file(weights, options) if weights else score_pair(str(a), b, options, save_weights)
        chosen = pattern or list(result.scores.patterns)
        order = result.ranking(pattern[0] if pattern else None, without_delimiters=without_delimiters)

        def frame() -> pd.DataFrame:
            every_head = result.to_frame(chosen, without_delimiters=without_delimiters)
            return every_head.iloc[order].head(top or len(order)) if all_heads or pattern or top else every_head

        def view(width: int) -> RenderableType:
            from attnscan.views import terminal

            if all_heads:
                return terminal.all_heads_view(result, chosen, order[:top], width, without_delimiters)
            return terminal.classification_view(result, chosen, width, top, without_delimiters)

        destination.emit(frame, view)


@app.command(epilog="Example: attnscan heads --pattern next-word --pairs pairs.tsv --csv > heads.csv")
def heads(
    pattern: Patterns = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--pairs", metavar="FILE", help="CSV, TSV, JSONL or Parquet, '-' for stdin; may be repeated."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A[,B]", help="The columns that hold the sentences.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count and report bad records, do not stop.")] = False,
    on_long: Annotated[OnLong, typer.Option("--on-long", help="What to do with inputs too long to read.")] = "truncate",
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
    batch_tokens: BatchTokens = 4096,
    seed: Seed = 0,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Keep the sums here, and go on from them.")
    ] = None,
    per_pair: Annotated[
        Path | None, typer.Option("--per-pair", metavar="FILE.parquet", help="Write every pair's scores as well.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.parquet", help="Rank by what --per-pair wrote.")
    ] = None,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Rank heads for patterns over many pairs; without --pairs, over those that come along."""
    with reported():
        if from_file is not None and (pairs or model or state or per_pair):
            raise typer.BadParameter("--from needs no pairs and no model, and has nothing to keep")
        if per_pair is not None and state is not None:
            raise typer.BadParameter("--per-pair is written whole, and so cannot go on from a --state")
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
        for path in (state, per_pair):
            if path is not None:
                check_writable(path)
        if from_file is not None:
            from attnscan.per_pair import rank_file

            result, interrupted = rank_file(from_file, pattern or ()), False
        else:
            files = ScanFiles(pairs or [], columns.split(",") if columns else None, skip_bad, state, per_pair)
            result, interrupted = scan_files(options, files)
        names = pattern or result.scores.patterns
        shown = top or (10 if pattern else 5)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal import ranking_view

            return ranking_view(result, names, shown, width, without_delimiters)

        destination.emit(lambda: result.to_frame(names, top, without_delimiters=without_delimiters), view)
        if interrupted:
            raise typer.Exit(130)


@app.command(epilog='Example: attnscan predictive "I went to the store." --csv > predictive.csv')
def predictive(
    a: Annotated[str, typer.Argument(metavar="A", help="Sentence A.")],
    b: SentenceB = None,
    model: Model = None,
    unit: UnitOption = "token",
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    measure: PredictiveOption = "auto",
    words: PredictiveWords = 32,
    batch_tokens: BatchTokens = 4096,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Say which words of one input help the model to predict which."""
    with reported():
        destination = destination_of(format, csv, output)
        options = ScanOptions(
            model=model,
            unit=unit,
            on_long="truncate" if truncate else "error",
            device=device,
            dtype=dtype,
            predictive=measure,
            predictive_words=words,
            batch_tokens=batch_tokens,
        )
        result = ask_dependencies(a, b, options)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal import dependencies_view

            return dependencies_view(result, width)

        destination.emit(result.to_frame, view)


@app.command()
def patterns() -> None:
    """Show the seven patterns and what each counts. No model is needed."""
    with reported():
        from attnscan.views.text import patterns_text

        Destination("table")  # says so if there is no standard output
        write_stdout(encoded(patterns_text()))


@app.command()
def models(format: FormatOption = None, csv: Csv = False, output: Output = None) -> None:
    """Show which models can run now: bundled, cached, reachable."""
    with reported():
        from attnscan.catalog import Catalog
        from attnscan.views.terminal import models_view

        catalog = Catalog.now()

        def frame() -> pd.DataFrame:
            import pandas as pd

            entries = pd.DataFrame([asdict(entry) for entry in catalog.entries])
            return entries.astype({"layers": "Int64", "heads": "Int64"})  # whole numbers, even where one is unknown

        destination_of(format, csv, output).emit(frame, lambda _: models_view(catalog))
