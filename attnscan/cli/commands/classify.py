"""The command `attnscan classify`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running, say
from attnscan.cli.output import Destination, Shown, destination_of, frame_of_input
from attnscan.inputs.read import STDIN
from attnscan.results.grid import Head, attention_named, check_heads_are_named, heads_of_kind
from attnscan.results.tables import of_kinds

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.inputs.sentence import Record
    from attnscan.results.heads import HeadScores

_STREAMED = ("table", "csv", "tsv", "jsonl")
_LISTED = 10  # heads on a screen, unless all or some are asked for
EXAMPLES = (
    'attnscan classify "The cat sat on the mat." "The cat lay on the rug."',
    'attnscan classify "I went home." --pattern next-word --csv > heads.csv',
)


@dataclass(frozen=True)
class _Listing:
    """Which heads a result is shown by: all that it says of them or, where some are asked for, these in a list."""

    by_pattern: bool
    """Whether patterns were asked for: the first of them ranks."""
    is_whole: bool
    """Whether every head that is asked for is listed, and not ten."""
    chosen: str | None
    top: int | None

    @property
    def is_of_heads(self) -> bool:
        """Whether heads are listed at all."""
        return self.is_whole or self.by_pattern or self.top is not None

    def names(self, result: HeadScores) -> tuple[str, ...]:
        """The patterns that are shown."""
        return result.pattern or tuple(result.scores.patterns)

    def heads_of(self, result: HeadScores) -> tuple[list[Head], list[Head]]:
        """Of all heads, or those chosen, the ranked ones in the order of their ranks, and those that have none."""
        grid = result.scores.grid
        ranked_by = self.names(result) if self.by_pattern else [None]
        order = next(filter(len, map(result.order, ranked_by)), ())
        wanted = dict.fromkeys(grid.select(self.chosen or "all"))
        ranked = dict.fromkeys(head for head in (grid[number] for number in order) if head in wanted)
        return [*ranked], [head for head in wanted if head not in ranked]

    def frame(self, result: HeadScores) -> pd.DataFrame:
        """The rows of one result."""
        every_head = result.to_frame(self.names(result))
        if not self.is_of_heads:
            return every_head
        ranked, others = self.heads_of(result)
        shown = ranked[: self.top] if self.top else [*ranked, *others]
        return every_head.iloc[[result.scores.grid.index(head) for head in shown]]

    def view(self, nth: int | None, result: HeadScores, width: int) -> RenderableType:
        """The screen of one result, the `nth` of several."""
        from attnscan.views.terminal.ranking import all_heads_view, classification_view

        if not self.is_of_heads:
            return classification_view(result, width, nth)
        shown = self.top or (None if self.is_whole else _LISTED)
        return all_heads_view(result, self.names(result), self.heads_of(result)[0], width, shown, nth)


def classify(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    pattern: o.Pattern = None,
    every: Annotated[bool, typer.Option("--all", help="List every head.")] = False,
    heads: Annotated[str | None, o.heads_option("List these heads: 2-0,6-11 or layer:2.")] = None,
    top: Annotated[int | None, o.top_option("List the N best heads. [default: 10]")] = None,
    save_weights: Annotated[
        Path | None,
        typer.Option("--save-weights", metavar="FILE.npz", help="Also save the attention weights."),
    ] = None,
) -> None:
    given = context.params
    pairs, weights, attention = given["pairs"], given["weights"], given["attention"]
    if heads is not None:
        check_heads_are_named(heads)
        if attention != "all":
            given = {**given, "attention": (attention := attention_named(heads, attention))}  # by their letters
    destination = destination_of(given)
    listing = _Listing(bool(pattern), every or heads is not None, heads, top)
    if pairs or a == STDIN:
        if b is not None or weights is not None or save_weights is not None or (a is not None and pairs):
            raise typer.BadParameter(
                "give a sentence, or two, or --weights, or --pairs, or - alone for lines of standard input"
            )
        _classify_each(given, destination, listing)
        return
    with running() as progress:
        answer = attnscan.classify(**o.arguments_of("classify", given), keep_attention=False, progress=progress)
    results: dict[Any, HeadScores] = {attention: answer} if attention != "all" else answer
    listings: list[tuple[_Listing, HeadScores]] = []
    for kind, result in results.items():
        chosen = heads_of_kind(heads, kind) if heads is not None and attention == "all" else heads
        if chosen != "":
            listings.append((replace(listing, chosen=chosen), result))
    from attnscan.views.behaviour import notes_of

    for _, result in listings if destination.format == "table" else ():
        for note in notes_of(result, listed=listing.is_of_heads):
            say(note)
    best = [head.name for head in listings[0][0].heads_of(listings[0][1])[0][:1]]
    command = ("show" if weights is not None else "head", *best) if best else ()
    surround = frame_of_input(given, *command, heads=",".join(best))
    surround = surround if listing.is_of_heads else replace(surround, above=())  # else its tokens are shown

    def view(width: int) -> RenderableType:
        from rich.console import Group

        return Group(*(own.view(None, result, width) for own, result in listings))

    destination.emit(Shown(lambda: of_kinds([own.frame(result) for own, result in listings]), view, surround))


def _classify_each(given: o.Given, to: Destination, listing: _Listing) -> None:
    """Score inputs, and write each when it is done."""
    from attnscan.api.one_input import classify_pairs
    from attnscan.api.pairs import lines_input

    if to.format not in _STREAMED:
        known = f"{', '.join(_STREAMED[:-1])} or {_STREAMED[-1]}"
        raise typer.BadParameter(
            f"several inputs are written one after the other, which {to.format} does not allow: use {known}"
        )
    about: Mapping[str, Any] = {}
    options = o.arguments_of("classify", {**given, "a": None}) | {"keep_attention": False}
    options.setdefault("pairs", lines_input(options.get("on_bad")))
    try:
        # no bar on a terminal that results come to: each would be written into it
        with to.growing() as write, running(bar=not to.on_terminal) as progress:
            for record, result, signature in classify_pairs(progress=progress, **options):
                about, number = {"signature": asdict(signature)}, signature.pairs_read

                def frame(record: Record = record, result: HeadScores = result) -> pd.DataFrame:
                    return _rows(listing, record, result)

                def view(width: int, number: int = number, result: HeadScores = result) -> RenderableType:
                    return listing.view(number, result, width)

                write(to.content(Shown(frame, view), first=number == 1))
    except BrokenPipeError:  # the reader of standard output has what it wanted
        to.write_signature(lambda: about)
        raise
    to.write_signature(lambda: about)


def _rows(listing: _Listing, record: Record, result: HeadScores) -> pd.DataFrame:
    """A result's rows, behind the file and the row of it that the input was, and its sentences."""
    rows = listing.frame(result)
    rows.insert(0, "file", record.place.file)
    rows.insert(1, "input", record.place.row)
    rows.insert(2, "sentence_a", record.pair.a)
    rows.insert(3, "sentence_b", record.pair.b or "")
    return rows
