"""The command `attnscan predictive`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.jobs import ask_dependencies
from attnscan.cli.messages import reported
from attnscan.cli.options import (
    BatchTokens,
    Csv,
    DeviceOption,
    DtypeOption,
    FormatOption,
    Model,
    Output,
    PredictiveOption,
    PredictiveWords,
    SentenceB,
    Truncate,
    UnitOption,
    destination_of,
)
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = (
    'attnscan predictive "I went to the store."',
    'attnscan predictive "I went to the store." --csv > predictive.csv',
)


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
    batch_tokens: BatchTokens = None,
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
            from attnscan.views.terminal.dependencies import dependencies_view

            return dependencies_view(result, width)

        destination.emit(result.to_frame, view)
