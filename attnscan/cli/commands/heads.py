"""The command `attnscan heads`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnscan.cli import options as o
from attnscan.cli.messages import say
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.files import check_writable
from attnscan.results.tables import of_kinds
from attnscan.results.terms import counted

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.heads import HeadScores

EXAMPLE = "attnscan heads --csv > heads.csv"
_TOP = "List the N best heads of a pattern. [default: 10; with --best 5]"


def heads(
    context: typer.Context,
    pattern: o.Pattern = None,
    top: Annotated[int | None, o.option(_TOP, "N", min=1)] = None,
    best: Annotated[bool, o.flag("--best", "Rank heads by each pattern, in place of the map.")] = False,
    per_pair: Annotated[Path | None, o.option("Write the scores of every pair.", "FILE.parquet")] = None,
) -> None:
    given = context.params
    if given["id"] is not None and (per_pair is None or not given["pairs"]):
        raise typer.BadParameter("--id copies a column of --pairs to --per-pair: give both")
    if per_pair is not None:
        check_writable(per_pair)
    output = output_of(given)
    answer: Any = o.call("heads", given)
    results: list[HeadScores] = list(answer.values()) if given["attention"] == "all" else [answer]
    for result in results:
        for line in _notes(result):
            say(line)
    is_listed = bool(best or pattern or top)
    count = results[-1].signature.pairs_read
    (what,) = about(given, count)
    title = f"{counted(count, 'pair')} of {what.removeprefix('pairs  ')}" if given["pairs"] else what[4:]
    from attnscan.views.behaviour import kinds_of
    from attnscan.views.terminal.heads import best_heads_view, ranking_view

    def view(width: int) -> RenderableType:
        from rich.console import Group

        if not is_listed:
            return Group(*(ranking_view(result, width, title) for result in results))
        most = top or (10 if pattern else 5)
        return Group(*(best_heads_view(result, result.scores.patterns, most, width, title) for result in results))

    def frame(result: HeadScores) -> pd.DataFrame:
        return result.to_frame(result.scores.patterns if is_listed else None, top)

    first = results[0]
    if is_listed:
        best_heads = [first.grid[order[0]].name for order in map(first.order, first.scores.patterns) if len(order)]
    else:
        best_heads = [head.name for _, kind in kinds_of(first.labels) for head in kind.heads]
    command = ("head", best_heads[0]) if best_heads else ()
    output.write(lambda: of_kinds(list(map(frame, results))), view, then=next_command(given, *command))


def _notes(result: HeadScores) -> Iterator[str]:
    """Of how many words `predictive` was measured."""
    if "predictive" in result.scores.patterns and result.signature.predictive != "off":
        place = result.scores.patterns.index("predictive")
        words, pairs = (int(values[..., place].max()) for values in (result.table.n, result.table.pairs))
        if pairs:  # else a note says why
            measured = f"{counted(words, 'word')} of {counted(pairs, 'pair')}"
            yield f"predictive was measured on {measured}; --predictive-pairs N asks about more"
