"""The command `attnscan explain`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import FileRole, Shown
from attnscan.cli.options import (
    HeadsArgument,
    OfOneAttention,
    PairFiles,
    SentenceA,
    SentenceB,
    Token,
    Where,
    complete_patterns,
    pattern_name,
)
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.results.grid import check_heads_are_named
from attnscan.run.reading import Pairs
from attnscan.run.requests import Explain
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from attnscan.inputs.sentence import Pair

EXAMPLES = (
    'attnscan explain 0-2 "I went to the store." --token store',
    'attnscan explain 0-2,1-8 "I went to the store." --csv > explained.csv',
)


@flattened
def explain(
    *,
    heads: Annotated[str | None, HeadsArgument] = None,
    a: SentenceA = None,
    b: SentenceB = None,
    token: Token = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            "-p",
            metavar="PATTERN",
            callback=lambda name: None if name is None else pattern_name(name),
            autocompletion=complete_patterns,
            help="Explain this pattern: name, letter or FILE.py:FUNCTION. [default: each head's]",
        ),
        FileRole.READ,
    ] = None,
    files: PairFiles,
    of: OfOneAttention,
    scan: Annotated[
        ScanOptions, Without("unit", "words", "by", "special", "predictive_words", "predictive_pairs", "threshold")
    ] = ScanOptions(predictive="off"),
    where: Where,
) -> None:
    if heads is None:
        raise typer.BadParameter("HEADS is missing: name some, or all")
    check_heads_are_named(heads)
    if a is not None and files.pairs:
        raise typer.BadParameter("give sentences or --pairs, but not both")
    if a is not None:
        files.check_unused()
    if token is not None and a is None:
        raise typer.BadParameter("--token is a token of one input: give its sentence")
    if pattern == "predictive" and (a is None or scan.predictive == "off"):
        raise typer.BadParameter("predictive is explained by one input: give its sentence, and --predictive auto")
    of, destination = of.resolved(heads), where.destination()
    kind = of.kinds[0]
    if pattern == "predictive" and kind != "encoder":
        raise typer.BadParameter("--pattern predictive is of an encoder's attention: leave it out")
    predictive = "off" if a is None else scan.predictive
    names, options = of.options(
        replace(scan, on_long=files.when_long(), predictive=predictive), kind, [] if pattern is None else [pattern]
    )
    pattern = names[0] if names else None
    read: Pair | Pairs = of.pairs(files.source(), kind)
    if a is not None:
        from attnscan.inputs.sentence import Pair

        read = of.pair(Pair(a, b), kind)
    result = answered(Explain(read, options, heads=heads, pattern=pattern, token=token))
    if a is not None:  # one input is an anecdote
        then = options_of(scan.model, of.typed(heads, links=False))
        surround = ScreenFrame(about_input(a, b), ("explain", heads), options=then)
    else:
        without = ("ablate", "--each") if "all" in heads else ("ablate", "--heads", heads)
        surround = files.frame(result.signature.pairs_read, scan.model, *without)
        surround = replace(surround, options=(*surround.options, *of.typed(heads)))
    from attnscan.views.terminal.explanation import explanation_view

    view = partial(explanation_view, result)
    destination.emit(Shown(result.to_frame, view, surround, document=result.to_dict))
