"""The command `attnscan show`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli import completion
from attnscan.cli.jobs import keep, show_heads
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
    PredictiveOption,
    Seed,
    SentenceA,
    SentenceB,
    Token,
    Truncate,
    Weights,
    check_apart,
    check_input,
    destination_of,
)
from attnscan.results.heads import check_heads_are_named
from attnscan.results.terms import Sentence
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = (
    'attnscan show 0-2 "I went to the store."',
    'attnscan show layer:1 "I went to the store." --token store',
)


def _window(text: str | None) -> str | None:
    match = None if text is None else re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if text is not None and (match is None or int(match[1]) > int(match[2])):
        raise typer.BadParameter(f"'{text}' is no window: give the first and the last index, as 10-40")
    return text


def show(
    heads: Annotated[
        str,
        typer.Argument(metavar="HEADS", autocompletion=completion.heads, help="2-0, or 2-0,6-11, or layer:2, or all."),
    ],
    a: SentenceA = None,
    b: SentenceB = None,
    average: Annotated[bool, typer.Option("--average", help="Show the heads' mean, not each.")] = False,
    token: Token = None,
    from_sentence: Annotated[Sentence | None, typer.Option("--from", help="Queries of this sentence only.")] = None,
    to_sentence: Annotated[Sentence | None, typer.Option("--to", help="Keys of this sentence only.")] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="I-J", callback=_window, help="Only tokens with these indices."),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="List the N strongest weights, draw no map.")
    ] = None,
    model: Model = None,
    weights: Weights = None,
    no_related: NoRelated = False,
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "off",
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Show the weights of one head, or of several, on one input."""
    with reported():
        check_input(a, weights, model)
        check_heads_are_named(heads)
        check_apart([output], [weights])
        destination = destination_of(format, csv, output)
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            related=not no_related,
            on_long="truncate" if truncate else "error",
            predictive=predictive,
            batch_tokens=batch_tokens,
            seed=seed,
        )
        first, last = window.split("-") if window else (None, None)
        shown = show_heads(
            keep(a, b, weights, options),
            heads=heads,
            average=average,
            token=token,
            sentences=(from_sentence, to_sentence),
            window=None if first is None or last is None else (int(first), int(last)),
        )

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal.head_weights import head_view

            return head_view(shown, width, top)

        destination.emit(shown.to_frame, view)
