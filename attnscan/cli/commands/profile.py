"""The command `attnscan profile`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.scoring.patterns import is_own

EXAMPLE = "attnscan profile --heads 1-9,2-11"
_HEADS = "Show these heads: 2-0,6-11 or layer:2; one is shown in full."
_TOP = "List the N largest classes of a head. [default: from 0.05]"
_PATTERN = "Add a pattern of your own. May repeat."


def profile(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    heads: Annotated[str | None, o.option(_HEADS, "HEADS")] = None,
    top: Annotated[int | None, o.option(_TOP, "N", min=1)] = None,
    pattern: Annotated[
        list[str] | None, typer.Option("--pattern", "-p", metavar="FILE.py:FUNCTION", help=_PATTERN)
    ] = None,
) -> None:
    given = context.params
    if not all(map(is_own, pattern or ())):
        raise typer.BadParameter("--pattern is for patterns of your own, FILE.py:FUNCTION")
    output = output_of(given)
    result = o.call("profile", given)
    import numpy as np

    from attnscan.views.terminal.profile import profile_view

    chosen = None if heads is None else result.grid.select(heads)
    best = heads or result.grid[int(np.nan_to_num(result.share, nan=-np.inf).max(-1).argmax())].name
    is_single = a is not None or given["weights"] is not None
    output.write(
        lambda: result.to_frame(chosen, top),
        lambda width: profile_view(result, width, chosen, top),
        above=about(given, result.signature.pairs_read),
        then=next_command(given, "show" if is_single else "head", best),
    )
