"""The command `attnscan show`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import HeadsArgument, OneInput, OnLongOption, Token, Where, on_long_of
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.cli.suggestion import suggestion
from attnscan.inputs.tokens import token_named
from attnscan.results.grid import are_heads, check_heads_are_named
from attnscan.results.terms import Side
from attnscan.run.requests import Classify
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    'attnscan show 0-2 "I went to the store."',
    'attnscan show layer:1 "I went to the store." --token store',
)


def _window(text: str | None) -> str | None:
    match = None if text is None else re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if text is not None and (match is None or int(match[1]) > int(match[2])):
        raise typer.BadParameter(f"'{text}' is no window: give the first and the last index, as 10-40")
    return text


@flattened
def show(
    *,
    heads: Annotated[str, HeadsArgument],
    average: Annotated[bool, typer.Option("--average", help="Show the mean of the heads.")] = False,
    token: Token = None,
    from_sentence: Annotated[Side | None, typer.Option("--from", help="Only queries of this sentence.")] = None,
    to_sentence: Annotated[Side | None, typer.Option("--to", help="Only keys of this sentence.")] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="I-J", callback=_window, help="Only tokens I to J."),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="List the N strongest weights instead of a map.")
    ] = None,
    given: OneInput,
    on_long: OnLongOption = None,
    scan: Annotated[ScanOptions, Without("model", "unit", "predictive_words", "predictive_pairs")] = ScanOptions(
        predictive="off"
    ),
    where: Where,
) -> None:
    if given.a is None and given.weights is None:
        what = "a sentence, or --weights FILE.npz," if are_heads(heads) else "HEADS"
        raise typer.BadParameter(f"{what} is missing: try {suggestion('show', [heads]) or EXAMPLES[0]}")
    given.check()
    check_heads_are_named(heads)
    destination = where.destination()
    options = replace(scan, model=given.model, on_long=on_long_of(on_long, many=False))
    result = answered(Classify(given.input, options, keep=True)).value
    from attnscan.results.head_weights import HeadWeights, tokens_within
    from attnscan.views.terminal.head_weights import head_view

    attention = result.kept_attention()
    ends = None if window is None else [int(end) for end in window.split("-")]
    within = None if ends is None else (ends[0], ends[1])
    query = None if token is None else token_named(token, attention.tokens)
    weights = HeadWeights(
        result=result,
        heads=tuple(attention.grid.select(heads)),
        average=average,
        queries=tokens_within(attention, from_sentence, within if query is None else None, query),
        keys=tokens_within(attention, to_sentence, within),
    )
    surround = ScreenFrame(
        about_input(given.a, given.b, given.weights),
        ("explain", heads)
        if given.weights is None
        else ("plot", "--kind", "head", "--heads", heads, "-o", "heads.svg"),
        given.sentences,
        options_of(given.model, weights=given.weights),
    )
    destination.emit(Shown(weights.to_frame, lambda width: head_view(weights, width, top), surround))
