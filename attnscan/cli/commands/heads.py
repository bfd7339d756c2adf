"""The command `attnscan heads`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running, say
from attnscan.cli.output import Shown, destination_of, frame_of_pairs
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
    destination = destination_of(given)

    with running() as progress:
        answer = attnscan.heads(**o.arguments_of("heads", given), progress=progress)
    results: list[HeadScores] = [answer] if given["attention"] != "all" else list(answer.values())
    for result in results:
        for line in (*_asked(result, pattern), *_aligned(result)):
            say(line)
    listed = best or bool(pattern or top) or not results[0].has_labels
    from rich.console import Group

    from attnscan.views.terminal.ranking import best_heads_view, ranking_view

    def view(width: int) -> RenderableType:
        if not listed:
            return Group(*(ranking_view(result, width, about) for result in results))
        most = top or (10 if pattern else 5)
        return Group(*(best_heads_view(result, _names(result, pattern), most, width, about) for result in results))

    def frame() -> pd.DataFrame:
        return of_kinds([result.to_frame(_names(result, pattern) if listed else None, top) for result in results])

    best_heads = (_best(result, _names(result, pattern) if listed else ()) for result in results)
    best_head = next(filter(None, best_heads), None)
    command = () if best_head is None else ("head", best_head)
    surround = frame_of_pairs(given, results[-1].signature.pairs_read, *command, heads=best_head or "")
    about = "".join(surround.above).removeprefix("the ")  # in the title
    if about.startswith("pairs  "):
        about = f"{counted(results[-1].signature.pairs_read, 'pair')} of {about.removeprefix('pairs  ')}"
    destination.emit(Shown(frame, view, replace(surround, above=())))


def _names(result: HeadScores, pattern: Sequence[str] | None) -> Sequence[str]:
    """The patterns that are shown: those asked for, in their order, or all."""
    if not pattern:
        return result.scores.patterns
    from attnscan.api.arguments import patterns_of

    return patterns_of(pattern, None)[0]


def _best(result: HeadScores, names: Sequence[str]) -> str | None:
    """The best head of the first of some patterns that heads have scores for; without patterns, of the first kind.

    None if there is no such head.
    """
    from attnscan.views.behaviour import kinds_of

    ranked = (result.scores.grid[order[0]] for order in map(result.order, names) if len(order))
    heads = ranked if names else (head for _, kind in kinds_of(result.labels) for head in kind.heads)
    return next((head.name for head in heads), None)


def _aligned(result: HeadScores) -> Iterator[str]:
    """What to say of how well the best head aligns words."""
    if result.alignment is not None and (best := result.alignment.best()) is not None:
        name, error = result.scores.grid[best[0]].name, best[1]
        yield f"alignment error rate {error:.2f} of {name} on half of the pairs, as the best head of the other half"


def _asked(result: HeadScores, pattern: Sequence[str] | None) -> Iterator[str]:
    """Of how many words `predictive` was measured, and what would tell its best head from the next."""
    if "predictive" not in _names(result, pattern) or result.signature.predictive == "off":
        return
    place = result.scores.patterns.index("predictive")
    words, pairs = (int(values[..., place].max()) for values in (result.table.n, result.table.pairs))
    if not pairs:
        yield "predictive was not measured: asking about a pair takes longer than all else; --predictive-pairs N asks"
        return
    more = "--predictive-pairs N asks about more"
    if pattern and result.close_to_best("predictive") and (needed := result.pairs_to_tell("predictive")) is not None:
        more = f"about {needed:,} would distinguish its best head from the next (--predictive-pairs N)"
    yield f"predictive was measured on {counted(words, 'word')} of {counted(pairs, 'pair')}; {more}"
