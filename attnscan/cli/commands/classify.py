"""The command `attnscan classify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.jobs import score_file, score_pair
from attnscan.cli.messages import reported
from attnscan.cli.options import (
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
    Threshold,
    Truncate,
    UnitOption,
    Weights,
    WithoutDelimiters,
    check_apart,
    check_input,
    destination_of,
)
from attnscan.results.terms import THRESHOLD
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

EXAMPLES = (
    'attnscan classify "The cat sat on the mat." "The cat lay on the rug."',
    'attnscan classify "I went home." --pattern next-word --csv > heads.csv',
)


def classify(
    a: SentenceA = None,
    b: SentenceB = None,
    model: Model = None,
    weights: Weights = None,
    pattern: Patterns = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Rank every head.")] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="How many heads to show. [default: those that fit a line]"),
    ] = None,
    threshold: Threshold = THRESHOLD,
    without_delimiters: WithoutDelimiters = False,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
    save_weights: Annotated[
        Path | None, typer.Option("--save-weights", metavar="FILE.npz", help="Save the attention weights as well.")
    ] = None,
) -> None:
    """Say what every head does on one input. That is one sentence, or a pair."""
    with reported():
        check_input(a, weights, model)
        if weights is not None and save_weights is not None:
            raise typer.BadParameter("--weights has nothing to save")
        check_apart([output, save_weights], [weights])
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
            from attnscan.views.terminal.classification import all_heads_view, classification_view

            if all_heads:
                return all_heads_view(result, chosen, order[:top], width, without_delimiters)
            return classification_view(result, chosen, width, top, without_delimiters)

        destination.emit(frame, view)
