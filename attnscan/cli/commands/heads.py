"""The command `attnscan heads`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import flattened
from attnscan.cli.destination import FileRole, Shown
from attnscan.cli.messages import say
from attnscan.cli.options import (
    KEEPS,
    EngineOption,
    OfAttention,
    PairFilesWithIds,
    Patterns,
    Split,
    State,
    Where,
    check_usage,
)
from attnscan.inputs.read import STDIN
from attnscan.results.files import check_writable, local_path
from attnscan.results.tables import of_kinds
from attnscan.results.terms import THRESHOLD, counted
from attnscan.run.requests import Rank
from attnscan.scan.options import ScanOptions, check_engine

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.ranking import Ranking

EXAMPLES = (
    "attnscan heads --csv > heads.csv",
    "attnscan heads --pattern next-word --csv > next-word.csv",
)


@flattened
def heads(
    *,
    pattern: Patterns = None,
    files: PairFilesWithIds,
    labels: Annotated[
        bool, typer.Option("--labels", hidden=True, help="One row a head, as the table is without it.")
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="N", min=1, help="List the N best heads of a pattern. [default: 10; with --best 5]"
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Rank heads by each pattern, in place of the map.")] = False,
    of: OfAttention,
    split: Split = False,
    scan: ScanOptions,
    state: State = None,
    per_pair: Annotated[
        Path | None,
        typer.Option("--per-pair", metavar="FILE.parquet", help="Write the scores of every pair."),
        FileRole.WRITTEN,
    ] = None,
    engine: EngineOption = "local",
    where: Where,
) -> None:
    check_engine(engine)
    of = of.resolved()
    check_usage(
        {
            "--id copies a column of --pairs to --per-pair: give both": files.id is not None
            and (per_pair is None or not files.pairs),
            "--per-pair cannot resume from --state: leave one of them out": per_pair is not None and state is not None,
            "--labels is of every head and all patterns: leave out --pattern and --top": labels
            and bool(pattern or top),
            "--threshold is for labels, which need all patterns: leave out --pattern": scan.threshold != THRESHOLD
            and bool(pattern),
            "--state and --per-pair are of one kind of attention: name encoder, decoder or cross": (
                of.attention == "all" and bool(state or per_pair)
            ),
            "--attention all reads pairs three times, and standard input can be read once: name a file": (
                of.attention == "all" and STDIN in files.paths
            ),
        }
    )
    keeping = None if state is None else local_path(state)
    for path in (per_pair, keeping):
        if path is not None:
            check_writable(path)
    destination = where.destination()
    results: list[Ranking] = []
    for kind in of.kinds:
        named, options = of.options(scan, kind, pattern)
        asked = tuple(known for known in options.patterns if not named or known.id in named)
        options = replace(options, on_long=files.when_long(), patterns=asked, split=split, labelled=not pattern)
        request = Rank(of.pairs(files.source(), kind), options, None, keeping, per_pair)
        results.append(answered(request, KEEPS))
    result = results[-1]
    for result in results:
        for line in (*_few_asked(result, named or result.scores.patterns), *_aligned(result)):
            say(line)
    listed = best or bool(pattern or top) or result.labels is None
    from rich.console import Group

    from attnscan.views.terminal.ranking import best_heads_view, ranking_view

    def view(width: int) -> RenderableType:
        if listed:
            shown = (
                best_heads_view(ranking, named or ranking.scores.patterns, top or (10 if pattern else 5), width, about)
                for ranking in results
            )
        else:
            shown = (ranking_view(ranking, width, about) for ranking in results)
        return Group(*shown)

    def frame() -> pd.DataFrame:
        tables = (result.to_frame((named or result.scores.patterns) if listed else None, top) for result in results)
        return of_kinds(list(tables))

    best_heads = (_best(ranking, (named or ranking.scores.patterns) if listed else ()) for ranking in results)
    best_head = next(filter(None, best_heads), None)
    command = () if best_head is None else ("head", best_head)
    surround = files.frame(result.signature.pairs_read, scan.model, *command)
    about = "".join(surround.above).removeprefix("the ")  # in the title
    if about.startswith("pairs  "):
        about = f"{counted(result.signature.pairs_read, 'pair')} of {about.removeprefix('pairs  ')}"
    surround = replace(surround, above=(), options=(*surround.options, *of.typed(best_head or "")))
    destination.emit(Shown(frame, view, surround))


def _best(result: Ranking, names: Sequence[str]) -> str | None:
    """The best head of the first of some patterns that heads have scores for; without patterns, of the first kind.

    None if there is no such head.
    """
    from attnscan.views.behaviour import kinds_of

    ranked = (result.scores.grid[order[0]] for order in map(result.order, names) if len(order))
    heads = ranked if names else (head for _, kind in kinds_of(result.known_labels()) for head in kind.heads)
    return next((head.name for head in heads), None)


def _aligned(result: Ranking) -> Iterator[str]:
    """What to say of how well the best head aligns words."""
    if result.alignment is not None and (best := result.alignment.best()) is not None:
        name, error = result.scores.grid[best[0]].name, best[1]
        yield f"alignment error rate {error:.2f} of {name} on half of the pairs, as the best head of the other half"


def _few_asked(result: Ranking, names: Sequence[str]) -> Iterator[str]:
    """What to say where `predictive` was asked of too few pairs for its best head to be told from the next."""
    if "predictive" not in names:
        return
    asked = int(result.scores.every_key.pairs[..., result.scores.patterns.index("predictive")].max())
    if asked == 1:
        yield "predictive was measured on one pair, which gives no standard errors (--predictive-pairs N)"
    elif close := result.close_to_best("predictive"):
        needed = result.pairs_to_tell("predictive")
        remedy = (
            ""
            if needed is None
            else f"; about {needed:,} pairs would distinguish it from the next (--predictive-pairs N)"
        )
        others = counted(len(close), "other")
        yield f"predictive: {asked} pairs do not distinguish its best head from {others}{remedy}"
