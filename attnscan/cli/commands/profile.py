"""The command `attnscan profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import ScreenFrame, Shown, destination_of, frame_of_input, frame_of_pairs
from attnscan.results.grid import check_heads_are_named
from attnscan.scoring.patterns import is_own

if TYPE_CHECKING:
    from attnscan.results.profile import Profile

EXAMPLES = (
    "attnscan profile --heads 1-9,2-11",
    "attnscan profile --csv > profiles.csv",
)


def profile(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    heads: Annotated[str | None, o.heads_option("Show these heads: 2-0,6-11 or layer:2; one is shown in full.")] = None,
    top: Annotated[int | None, o.top_option("List the N largest classes of a head. [default: from 0.05]")] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option("--pattern", "-p", metavar="FILE.py:FUNCTION", help="Add a pattern of your own. May repeat."),
    ] = None,
) -> None:
    given = context.params
    if heads is not None:
        check_heads_are_named(heads)
    if ours := [name for name in pattern or () if not is_own(name)]:
        raise typer.BadParameter(f"--pattern is for patterns of your own, FILE.py:FUNCTION, and '{ours[0]}' is none")
    destination = destination_of(given)
    from attnscan.views.terminal.profile import profile_view

    with running() as progress:
        result = attnscan.profile(**o.arguments_of("profile", given), progress=progress)
    chosen = None if heads is None else result.grid.select(heads)
    destination.emit(
        Shown(
            lambda: result.to_frame(chosen, top),
            lambda width: profile_view(result, width, chosen, top),
            _surround(given, result, heads),
        ),
    )


def _surround(given: o.Given, result: Profile, heads: str | None) -> ScreenFrame:
    """After all heads the one with the largest share; after some of one input, the same over many pairs."""
    import numpy as np

    largest = np.nan_to_num(result.share, nan=-np.inf).max(-1)
    best = heads or result.grid[int(largest.argmax())].name
    if given["a"] is None and given["weights"] is None:
        command = ("head", best) if heads is None else ("similar", "--heads", heads)
        return frame_of_pairs(given, result.signature.pairs_read, *command, heads=best)
    if given["weights"] is not None:
        return frame_of_input(given, "show", best)
    return frame_of_input(given, "show", best, heads=best)
