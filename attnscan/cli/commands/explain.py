"""The command `attnscan explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli import completion
from attnscan.cli.jobs import explain_one
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
    OnePattern,
    OnLongOption,
    Output,
    Pairs,
    PredictiveOption,
    Seed,
    SentenceB,
    SkipBad,
    Token,
    check_apart,
    destination_of,
)
from attnscan.cli.pair_jobs import PairFiles, explain_pairs
from attnscan.results.heads import check_heads_are_named
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from rich.console import RenderableType

EXAMPLES = (
    'attnscan explain 0-2 "I went to the store." --token store',
    'attnscan explain 0-2,1-8 "I went to the store." --csv > explained.csv',
)


def explain(
    heads: Annotated[
        str | None,
        typer.Argument(
            metavar="HEADS", autocompletion=completion.heads, help="2-0, or 2-0,6-11, or layer:2.", show_default=False
        ),
    ] = None,
    a: Annotated[str | None, typer.Argument(metavar="A", help="Sentence A.", show_default=False)] = None,
    b: SentenceB = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Every head; no HEADS are given then.")] = False,
    token: Token = None,
    pattern: OnePattern = None,
    pairs: Pairs = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    on_long: OnLongOption = "truncate",
    model: Model = None,
    no_related: NoRelated = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "off",
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Explain how heads make their patterns. By one input, by --pairs, or by the pairs that come along."""
    with reported():
        if all_heads:
            if b is not None:
                raise typer.BadParameter("--all takes the place of HEADS: give only the sentences")
            heads, a, b = "all", heads, a
        if heads is None:
            raise typer.BadParameter("name heads, as in: attnscan explain 2-0 A B, or give --all")
        check_heads_are_named(heads)
        if a is not None and (pairs or columns or skip_bad):
            raise typer.BadParameter("give sentences or --pairs, but not both")
        if token is not None and a is None:
            raise typer.BadParameter("--token is a token of one input: give its sentence")
        if pattern == "predictive" and (a is None or predictive == "off"):
            raise typer.BadParameter("predictive is explained by one input: give its sentence, and --predictive auto")
        check_apart([output], pairs or [])
        destination = destination_of(format, csv, output)
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            related=not no_related,
            on_long=on_long,
            predictive=predictive if a is not None else "off",
            batch_tokens=batch_tokens,
            seed=seed,
        )
        query = None
        if a is not None:
            found, query = explain_one(a, b, options, heads=heads, pattern=pattern, token=token)
        else:
            files = PairFiles(pairs or [], columns.split(",") if columns else None, skip_bad)
            found = explain_pairs(options, files, heads=heads, pattern=pattern)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal.explanation import explanation_view

            return explanation_view(found, width, query)

        if destination.format == "json":
            destination.emit_object(found.to_dict)
        else:
            destination.emit(found.to_frame if query is None else lambda: found.token_frame(query), view)
