"""The command `attnscan compare`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import OfOneAttention, PairFiles, Patterns, Where, heads_option
from attnscan.results.grid import check_heads_are_named
from attnscan.results.terms import Match
from attnscan.run.requests import Compare
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    "attnscan compare bundled bundled --pattern next-word",
    "attnscan compare bundled bundled --match nearest --csv > same.csv",
)


@flattened
def compare(
    *,
    model_a: Annotated[str, typer.Argument(metavar="MODEL_A", help="A hub id, a directory, or 'bundled'.")],
    model_b: Annotated[str, typer.Argument(metavar="MODEL_B", help="The model to compare with, such as A fine-tuned.")],
    match: Annotated[
        Match, typer.Option("--match", help="Compare heads of the same place, or each with the most similar one.")
    ] = "place",
    pattern: Patterns = None,
    heads: Annotated[str | None, heads_option("List the differences of these heads: 2-0,6-11 or layer:2.")] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="List the N greatest differences of each pattern."),
    ] = None,
    files: PairFiles,
    of: OfOneAttention,
    scan: Annotated[ScanOptions, Without("model", "predictive", "predictive_words", "predictive_pairs")],
    where: Where,
) -> None:
    if "predictive" in (pattern or ()):
        raise typer.BadParameter(
            "predictive cannot be compared: each model is asked by itself which words predict which"
        )
    if heads is not None:
        check_heads_are_named(heads)
    of, destination = of.resolved(heads), where.destination(draws=True)
    kind = of.kinds[0]
    names, options = of.options(scan, kind, pattern)
    compared = tuple(known for known in options.patterns if known.target is not None)
    ours, theirs = (
        replace(options, model=model, on_long=files.when_long(), predictive="off", patterns=compared)
        for model in (model_a, model_b)
    )
    result = answered(Compare(of.pairs(files.source(), kind), (ours, theirs), match=match, heads=heads))
    some = None if heads is None else result.a.grid.select(heads)
    names = names or list(result.patterns)
    greatest = (result.chosen(name, some, 1) for name in names)
    command = next((("profile", "--heads", chosen[0].name) for chosen in greatest if chosen), ())
    from attnscan.views.terminal.comparison import comparison_view

    surround = files.frame(result.pairs, model_b, *command, more=of.typed(command[-1]) if command else ())
    destination.emit(
        Shown(
            lambda: result.to_frame(names, some, top),
            lambda width: comparison_view(result, names, width, some, top),
            surround,
            result,
            names,
        )
    )
