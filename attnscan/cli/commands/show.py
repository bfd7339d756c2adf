"""The command `attnscan show`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import (
    HeadsArgument,
    OfOneAttention,
    OneInput,
    OnLongOption,
    Token,
    Where,
    Window,
    on_long_of,
    window_of,
)
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.results.grid import check_heads_are_named
from attnscan.results.terms import Side
from attnscan.run.requests import Classify
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    'attnscan show 0-2 "I went to the store."',
    'attnscan show layer:1 "I went to the store." --token store',
)


@flattened
def show(
    *,
    heads: Annotated[str, HeadsArgument],
    average: Annotated[bool, typer.Option("--average", help="Show the mean of the heads.")] = False,
    token: Token = None,
    from_sentence: Annotated[Side | None, typer.Option("--from-sentence", help="Only queries of A or B.")] = None,
    to_sentence: Annotated[Side | None, typer.Option("--to-sentence", help="Only keys of A or B.")] = None,
    window: Window = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="List the N strongest weights instead of a map.")
    ] = None,
    given: OneInput,
    of: OfOneAttention,
    on_long: OnLongOption = None,
    scan: Annotated[
        ScanOptions, Without("model", "unit", "words", "predictive_words", "predictive_pairs")
    ] = ScanOptions(predictive="off"),
    where: Where,
) -> None:
    check_heads_are_named(heads)
    if given.a is None and given.weights is None:
        raise typer.BadParameter("a sentence, or --weights FILE.npz, is missing")
    given.check()
    of, destination = of.resolved(heads), where.destination()
    kind = of.kinds[0]
    _, options = of.options(replace(scan, model=given.model, on_long=on_long_of(on_long, many=False)), kind, None)
    from attnscan.results.head_weights import Selection

    is_listed = destination.format != "table"
    selection = Selection(heads, token, from_sentence, to_sentence, window_of(window), is_listed)
    selection.check_attention(kind)
    weights = selection.of(answered(Classify(of.input(given, kind), options, keep=selection)), average=average)
    from attnscan.views.terminal.head_weights import head_view

    writes = ("B  is written by the model",) if kind != "encoder" and given.b is None else ()
    surround = ScreenFrame(
        about_input(given.a, given.b, given.weights) + writes,
        ("explain", heads)
        if given.weights is None
        else ("plot", "--kind", "head", "--heads", heads, "-o", "heads.svg"),
        given.sentences,
        options_of(given.model, of.typed(heads), given.weights),
    )
    destination.emit(Shown(weights.to_frame, lambda width: head_view(weights, width, top), surround))
