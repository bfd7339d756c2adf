"""The command `attnscan profile`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.scoring.patterns import is_own

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
    if ours := [name for name in pattern or () if not is_own(name)]:
        raise typer.BadParameter(f"--pattern is for patterns of your own, FILE.py:FUNCTION, and '{ours[0]}' is none")
    output = output_of(given)
    result = o.call("profile", given)
    import numpy as np

    from attnscan.views.terminal.profile import profile_view

    chosen = None if heads is None else result.grid.select(heads)
    largest = np.nan_to_num(result.share, nan=-np.inf).max(-1)
    best = heads or result.grid[int(largest.argmax())].name
    command: tuple[str, ...] = ("show", best)
    if a is None and given["weights"] is None:  # after all heads the one with the largest share
        command = ("head", best) if heads is None else ("similar", "--heads", heads)
    output.write(
        lambda: result.to_frame(chosen, top),
        lambda width: profile_view(result, width, chosen, top),
        above=about(given, result.signature.pairs_read),
        then=next_command(given, *command, heads="" if given["weights"] is not None else best),
    )
