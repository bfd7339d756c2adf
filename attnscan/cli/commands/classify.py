"""The command `attnscan classify`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Destination, FileRole, Shown
from attnscan.cli.messages import say
from attnscan.cli.options import OfAttention, OneInput, PairFiles, Patterns, Where, heads_option
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.errors import CaptureError, ModelError
from attnscan.inputs.read import STDIN
from attnscan.results.files import check_suffix, check_writable, write_file
from attnscan.results.grid import Head, check_heads_are_named, heads_of_kind
from attnscan.results.tables import of_kinds
from attnscan.run.events import Answer
from attnscan.run.reading import LinePairs
from attnscan.run.requests import Classify, ClassifyEach
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.classification import Classification
    from attnscan.results.head_weights import Selection

_STREAMED = ("table", "csv", "tsv", "jsonl")
_LISTED = 10  # heads on a screen, unless all or some are asked for
EXAMPLES = (
    'attnscan classify "The cat sat on the mat." "The cat lay on the rug."',
    'attnscan classify "I went home." --pattern next-word --csv > heads.csv',
)


@dataclass(frozen=True)
class _Listing:
    """Which heads a result is shown by: all that it says of them or, where some are asked for, these in a list."""

    names: tuple[str, ...]
    """The patterns that are shown."""
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

    def heads_of(self, result: Classification) -> tuple[list[Head], list[Head]]:
        """Of all heads, or those chosen, the ranked ones in the order of their ranks, and those that have none."""
        grid = result.scores.grid
        order = next(filter(len, map(result.ranking, self.names if self.by_pattern else [None])), ())
        wanted = dict.fromkeys(grid.select(self.chosen or "all"))
        ranked = dict.fromkeys(head for head in (grid[number] for number in order) if head in wanted)
        return [*ranked], [head for head in wanted if head not in ranked]

    def frame(self, result: Classification) -> pd.DataFrame:
        """The rows of one result."""
        every_head = result.to_frame(self.names)
        if not self.is_of_heads:
            return every_head
        ranked, others = self.heads_of(result)
        shown = ranked[: self.top] if self.top else [*ranked, *others]
        return every_head.iloc[[result.scores.grid.index(head) for head in shown]]

    def view(self, nth: int | None, result: Classification, width: int) -> RenderableType:
        """The screen of one result, the `nth` of several."""
        from attnscan.views.terminal.ranking import all_heads_view, classification_view

        if not self.is_of_heads:
            return classification_view(result, width, nth)
        shown = self.top or (None if self.is_whole else _LISTED)
        return all_heads_view(result, self.names, self.heads_of(result)[0], width, shown, nth)


@flattened
def classify(
    *,
    given: OneInput,
    pattern: Patterns = None,
    all_heads: Annotated[bool, typer.Option("--all", help="List every head.")] = False,
    heads: Annotated[str | None, heads_option("List these heads: 2-0,6-11 or layer:2.")] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="List the N best heads. [default: 10]"),
    ] = None,
    files: PairFiles,
    of: OfAttention,
    scan: Annotated[ScanOptions, Without("model", "predictive_pairs")],
    where: Where,
    save_weights: Annotated[
        Path | None,
        typer.Option("--save-weights", metavar="FILE.npz", help="Also save the attention weights."),
        FileRole.WRITTEN,
    ] = None,
) -> None:
    of = of.resolved(heads)
    several = bool(files.pairs) or given.a == STDIN
    if several:
        _check_several(given, files, save_weights)
    else:
        given.check()
        files.check_unused()
    if given.weights is not None and save_weights is not None:
        raise typer.BadParameter("--save-weights needs a model: --weights FILE.npz is saved already")
    if scan.reading.carried and save_weights is not None:
        raise typer.BadParameter("--save-weights always saves attention weights: leave out --by carried")
    if of.attention == "all" and several:
        raise typer.BadParameter("--attention all is of one input: name encoder, decoder or cross")
    if heads is not None:
        check_heads_are_named(heads)
    destination = where.destination()
    listings: list[tuple[ScanOptions, _Listing]] = []
    for kind in of.kinds:
        chosen = heads_of_kind(heads, kind) if heads is not None and of.attention == "all" else heads
        if chosen == "":
            continue
        names, options = of.options(replace(scan, model=given.model), kind, pattern)
        shown = tuple(names or [known.id for known in options.patterns])
        listing = _Listing(shown, bool(pattern), all_heads or heads is not None, chosen, top)
        listings.append((replace(options, on_long=files.when_long(many=False)), listing))
    options, listing = listings[0]
    if several:
        pairs = of.pairs(LinePairs(files.skip_bad) if given.a == STDIN else files.source(), options.attention)
        _classify_each(ClassifyEach(pairs, options), destination, listing)
        return
    keep: bool | Selection = False
    if save_weights is not None:
        check_suffix(save_weights, ".npz", "--save-weights")
        check_writable(save_weights)
        from attnscan.results.head_weights import Selection

        keep = Selection(is_saved=True)
    requests = [Classify(of.input(given, options.attention), options, keep=keep) for options, _ in listings]
    results: list[Classification] = [answered(request) for request in requests]
    result = results[0]
    if save_weights is not None:
        from attnscan.inputs.weights import write_weights

        kinds = results
        if len(results) == 1:  # a file has all kinds that there are
            for request in requests[0].beside:
                with suppress(CaptureError, ModelError):
                    kinds = [*kinds, answered(request)]
        write_file(save_weights, write_weights(*(kind.kept_attention().saved() for kind in kinds)))
    best = tuple(head.name for head in listing.heads_of(result)[0][:1])
    above = about_input(given.a, given.b, given.weights) if listing.is_of_heads else ()  # else its tokens are shown
    command = ("show" if given.weights is not None else "head", *best) if best else ()
    options_then = options_of(given.model, of.typed(",".join(best)), given.weights)
    surround = ScreenFrame(above, command, given.sentences, options_then)
    from attnscan.views.behaviour import notes_of

    both = [(own, result) for (_, own), result in zip(listings, results, strict=True)]

    def view(width: int) -> RenderableType:
        from rich.console import Group

        return Group(*(own.view(None, result, width) for own, result in both))

    for result in results if destination.format == "table" else ():
        for note in notes_of(result, listed=listing.is_of_heads):
            say(note)
    destination.emit(Shown(lambda: of_kinds([own.frame(result) for own, result in both]), view, surround))


def _classify_each(request: ClassifyEach, to: Destination, listing: _Listing) -> None:
    """Score inputs, and write each when it is done."""
    if to.format not in _STREAMED:
        known = f"{', '.join(_STREAMED[:-1])} or {_STREAMED[-1]}"
        raise typer.BadParameter(
            f"several inputs are written one after the other, which {to.format} does not allow: use {known}"
        )
    about = dict[str, object]()

    def take(answer: Answer) -> None:
        about["signature"], number = asdict(answer.signature), answer.signature.pairs_read
        shown = Shown(partial(_rows, listing, answer), partial(listing.view, number, answer.value))
        file.write(to.content(shown, first=number == 1))

    try:
        with to.growing() as file:
            # no bar on a terminal that results come to: each would be written into it
            answered(request, take=take, bar=not to.on_terminal)
    except BrokenPipeError:  # the reader of standard output has what it wanted
        to.write_signature(lambda: about)
        raise
    to.write_signature(lambda: about)


def _rows(listing: _Listing, answer: Answer) -> pd.DataFrame:
    """A result's rows, behind the file and the row of it that the input was, and its sentences."""
    rows, record = listing.frame(answer.value), answer.record
    rows.insert(0, "file", record.place.file)
    rows.insert(1, "input", record.place.row)
    rows.insert(2, "sentence_a", record.pair.a)
    rows.insert(3, "sentence_b", record.pair.b or "")
    return rows


def _check_several(given: OneInput, files: PairFiles, save_weights: Path | None) -> None:
    """Raises: typer.BadParameter for what is of one input alone."""
    if (given.a is not None and files.pairs) or given.b is not None:
        raise typer.BadParameter("give sentences, --pairs, or - alone for lines of standard input, but not two of them")
    if given.weights is not None or save_weights is not None:
        raise typer.BadParameter("--weights and --save-weights are for one input: leave out --pairs")
    if not files.pairs:
        replace(files, skip_bad=False).check_unused("; a line of standard input has A and B with a tab between")
