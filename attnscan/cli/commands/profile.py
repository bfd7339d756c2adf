"""The command `attnscan profile`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import FileRole, Shown
from attnscan.cli.options import (
    KEEPS,
    EngineOption,
    OfOneAttention,
    OneInput,
    PairFiles,
    State,
    Where,
    heads_option,
)
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.results.files import check_writable, local_path
from attnscan.results.grid import check_heads_are_named
from attnscan.run.reading import OnePair
from attnscan.run.requests import Classify, Rank, WeightsInput
from attnscan.scan.options import ScanOptions, check_engine
from attnscan.scoring.patterns import is_own

if TYPE_CHECKING:
    from attnscan.results.profile import Profile

EXAMPLES = (
    "attnscan profile --heads 1-9,2-11",
    "attnscan profile --csv > profiles.csv",
)


@flattened
def profile(
    *,
    given: OneInput = OneInput(),  # noqa: B008 (it is frozen)
    heads: Annotated[str | None, heads_option("Show these heads: 2-0,6-11 or layer:2; one is shown in full.")] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="List the N largest classes of a head. [default: from 0.05]"),
    ] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            "-p",
            metavar="FILE.py:FUNCTION",
            help="Add a pattern of your own. May repeat.",
        ),
        FileRole.READ,
    ] = None,
    files: PairFiles,
    of: OfOneAttention,
    scan: Annotated[
        ScanOptions, Without("model", "predictive", "predictive_words", "predictive_pairs", "threshold")
    ] = ScanOptions(predictive="off"),
    state: State = None,
    engine: EngineOption = "local",
    where: Where,
) -> None:
    check_engine(engine)
    of, is_alone = of.resolved(heads), given.a is not None or given.weights is not None
    if is_alone:
        given.check()
    if is_alone and (files.pairs or state):
        raise typer.BadParameter("give a sentence, or two, or --pairs, but not both; --state is for many pairs")
    keeping = None if state is None else local_path(state)
    if ours := [name for name in pattern or () if not is_own(name)]:
        raise typer.BadParameter(f"--pattern is for patterns of your own, FILE.py:FUNCTION, and '{ours[0]}' is none")
    kind = of.kinds[0]
    if heads is not None:
        check_heads_are_named(heads)
    if keeping is not None:
        check_writable(keeping)
    destination = where.destination()
    _, options = of.options(replace(scan, model=given.model, on_long=files.when_long()), kind, pattern)
    options = replace(options, labelled=True)
    alone = of.input(given, kind) if is_alone else None
    if isinstance(alone, WeightsInput):
        request: Classify | Rank = Classify(alone, options)
    else:
        pairs = of.pairs(files.source(), kind) if alone is None else OnePair(alone)
        request = Rank(pairs, options, state=keeping)
    result = answered(request, KEEPS).profile
    chosen = None if heads is None else result.grid.select(heads)
    from attnscan.views.terminal.profile import profile_view

    destination.emit(
        Shown(
            lambda: result.to_frame(chosen, top),
            lambda width: profile_view(result, width, chosen, top),
            _surround(given, files, of, result, heads),
        ),
    )


def _surround(given: OneInput, files: PairFiles, of: OfOneAttention, result: Profile, heads: str | None) -> ScreenFrame:
    """After all heads the one with the largest share; after some of one input, the same over many pairs."""
    import numpy as np

    largest = np.nan_to_num(result.share, nan=-np.inf).max(-1)
    best = result.grid[int(largest.argmax())].name
    if given.a is None and given.weights is None:
        command = ("profile", "--heads", best) if heads is None else ("similar", "--heads", heads)
        return files.frame(result.signature.pairs_read, given.model, *command, more=of.typed(heads or best))
    above = about_input(given.a, given.b, given.weights)
    if given.weights is not None:
        return ScreenFrame(above, ("show", heads or best), options=options_of(None, weights=given.weights))
    sentences = given.sentences if heads is None else ()
    return ScreenFrame(
        above, ("profile", "--heads", heads or best), sentences, options_of(given.model, of.typed(heads or best))
    )
