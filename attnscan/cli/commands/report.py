"""The command `attnscan report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attnscan.cli import completion
from attnscan.cli.destination import write_stdout
from attnscan.cli.jobs import keep
from attnscan.cli.messages import reported, say
from attnscan.cli.options import (
    BatchTokens,
    DeviceOption,
    DtypeOption,
    Model,
    NoRelated,
    PredictiveOption,
    PredictiveWords,
    Seed,
    SentenceA,
    SentenceB,
    Truncate,
    UnitOption,
    Weights,
    check_input,
)
from attnscan.results.files import check_writable, write_file
from attnscan.results.heads import check_heads_are_named, heads_named
from attnscan.results.terms import THRESHOLD
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    'attnscan report "The cat sat on the mat." -o page.html',
    'attnscan report "The cat sat." "The cat ran." --heads 0-2,1-8 -o page.html',
)


def report(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Write the page to FILE; - is standard output.")
    ],
    a: SentenceA = None,
    b: SentenceB = None,
    model: Model = None,
    weights: Weights = None,
    heads: Annotated[
        str | None,
        typer.Option(
            "--heads",
            metavar="HEADS",
            autocompletion=completion.heads,
            help="Carry these heads: 2-0,6-11, layer:2, all. [default: all, or those that fit]",
        ),
    ] = None,
    no_neurons: Annotated[bool, typer.Option("--no-neurons", help="Leave queries and keys out.")] = False,
    size: Annotated[
        float | None,
        typer.Option(
            "--size", metavar="MB", min=0.1, help="How large the page may be. [default: 2, or what --heads takes]"
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="X", min=0, max=1, help="How far above chance a label's pattern must be.")
    ] = THRESHOLD,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    batch_tokens: BatchTokens = None,
    seed: Seed = 0,
) -> None:
    """Write one offline page to look at every head on one input. It has thumbnails, lines, neurons, scores."""
    with reported():
        check_input(a, weights, model)
        to_stdout = str(output) == "-"
        if to_stdout and sys.stdout.isatty():
            raise typer.BadParameter("a page is not for a terminal: -o page.html")
        if not to_stdout and output.suffix.lower() not in (".html", ".htm"):
            raise typer.BadParameter(f"a page is HTML, and {output} is not called so: -o {output.stem}.html")
        if not to_stdout:
            check_writable(output)
        if heads is not None:
            check_heads_are_named(heads)
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
        result, attention = keep(a, b, weights, options)
        from attnscan.views.page.page import SIZE, PageOptions, page

        chosen = None if heads is None else tuple(heads_named(heads, attention.grid))
        limit = int(size * 1_000_000) if size else SIZE if chosen is None else None
        made = page(result, attention, PageOptions(chosen, not no_neurons, limit))
        for note in made.notes:
            say(f"{note}; --heads or --size carries others")
        if to_stdout:
            write_stdout(made.html.encode())
        else:
            write_file(output, made.html.encode())
