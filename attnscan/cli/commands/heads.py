"""The command `attnscan heads`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

EXAMPLES = (
    "attnscan heads --csv > heads.csv",
    "attnscan heads --pattern next-word --csv > next-word.csv",
)


def heads(
    context: typer.Context,
    pattern: o.Pattern = None,
    labels: Annotated[
        bool, typer.Option("--labels", hidden=True, help="One row a head, as the table is without it.")
    ] = False,
    top: Annotated[int | None, o.top_option("List the N best heads of a pattern. [default: 10; with --best 5]")] = None,
    best: Annotated[bool, typer.Option("--best", help="Rank heads by each pattern, in place of the map.")] = False,
    per_pair: Annotated[
        Path | None, typer.Option("--per-pair", metavar="FILE.parquet", help="Write the scores of every pair.")
    ] = None,
) -> None:
    given = context.params
    if given["id"] is not None and (per_pair is None or not given["pairs"]):
        raise typer.BadParameter("--id copies a column of --pairs to --per-pair: give both")
    if labels and (pattern or top):
        raise typer.BadParameter("--labels is of every head and all patterns: leave out --pattern and --top")
    if per_pair is not None:
        check_writable(per_pair)
    output = output_of(given)
    answer = o.call("heads", given)
    results: list[HeadScores] = list(answer.values()) if given["attention"] == "all" else [answer]
    for result in results:
        for line in _notes(result, pattern):
            say(line)
    listed = best or bool(pattern or top) or not results[0].has_labels
    count = results[-1].signature.pairs_read
    (what,) = about(given, count)
    title = f"{counted(count, 'pair')} of {what.removeprefix('pairs  ')}" if given["pairs"] else what[4:]

    def view(width: int) -> RenderableType:
        from rich.console import Group

        from attnscan.views.terminal.heads import best_heads_view, ranking_view

        if not listed:
            return Group(*(ranking_view(result, width, title) for result in results))
        most = top or (10 if pattern else 5)
        return Group(*(best_heads_view(result, _names(result, pattern), most, width, title) for result in results))

    def frame() -> pd.DataFrame:
        return of_kinds([result.to_frame(_names(result, pattern) if listed else None, top) for result in results])

    best_heads = (_best(result, _names(result, pattern) if listed else ()) for result in results)
    best_head = next(filter(None, best_heads), None)
    command = () if best_head is None else ("head", best_head)
    output.write(frame, view, then=next_command(given, *command, heads=best_head or ""))


def _names(result: HeadScores, pattern: Sequence[str] | None) -> Sequence[str]:
    """The patterns that are shown: those asked for, in their order, or all."""
    if not pattern:
        return result.scores.patterns
    from attnscan.api.arguments import patterns_of

    return patterns_of(pattern, None)[0]


def _best(result: HeadScores, names: Sequence[str]) -> str | None:
    """The best head of the first of some patterns that heads have scores for; without patterns, of the first kind."""
    from attnscan.views.behaviour import kinds_of

    if names:
        return next((result.grid[order[0]].name for order in map(result.order, names) if len(order)), None)
    return next((head.name for _, kind in kinds_of(result.labels) for head in kind.heads), None)


def _notes(result: HeadScores, pattern: Sequence[str] | None) -> Iterator[str]:
    """Of how many words `predictive` was measured, and how well the best head aligns words."""
    if "predictive" in _names(result, pattern) and result.signature.predictive != "off":
        place, more = result.scores.patterns.index("predictive"), "--predictive-pairs N asks about more"
        words, pairs = (int(values[..., place].max()) for values in (result.table.n, result.table.pairs))
        if pairs:  # else a note says why
            yield f"predictive was measured on {counted(words, 'word')} of {counted(pairs, 'pair')}; {more}"
    if result.alignment is not None and (best := result.alignment.best()) is not None:
        name, error = result.grid[best[0]].name, best[1]
        yield f"alignment error rate {error:.2f} of {name} on half of the pairs, as the best head of the other half"
