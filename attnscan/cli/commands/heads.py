"""The command `attnscan heads`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import flattened
from attnscan.cli.destination import FileRole, Shown, end_interrupted, parts_of
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
from attnscan.errors import PairsError
from attnscan.inputs.places.names import STDIN
from attnscan.results.grid import check_heads_are_named
from attnscan.results.stored_file import place_of
from attnscan.results.tables import of_kinds
from attnscan.results.terms import THRESHOLD, counted
from attnscan.run.requests import Rank, RankFile
from attnscan.scan.options import ScanOptions, check_engine
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import with_own

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.ranking import Ranking

EXAMPLES = (
    "attnscan heads --csv > heads.csv",
    "attnscan heads --pattern next-word --csv > next-word.csv",
)


@dataclass(frozen=True)
class PairRows:
    """A file of every pair's own scores: written, or read in place of pairs."""

    per_pair: Annotated[
        Path | None,
        typer.Option("--per-pair", metavar="FILE.parquet", help="Write the scores of every pair."),
        FileRole.WRITTEN,
    ] = None
    per_pair_heads: Annotated[
        str | None,
        typer.Option("--per-pair-heads", metavar="HEADS", help="Only these heads in --per-pair: 2-0,6-11 or layer:2."),
    ] = None
    from_file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.parquet", help="Rank heads from a file that --per-pair wrote."),
        FileRole.READ,
    ] = None


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
    rows: PairRows,
    engine: EngineOption = "local",
    where: Where,
) -> None:
    check_engine(engine)
    of, by_file = of.resolved(rows.per_pair_heads), rows.from_file is not None
    check_usage(
        {
            "--from replaces --pairs, --model, --state and --per-pair: leave these out": by_file
            and bool(files.pairs or scan.model or state or rows.per_pair),
            "--id copies a column of --pairs to --per-pair: give both": files.id is not None
            and (rows.per_pair is None or not files.pairs),
            "--per-pair cannot resume from --state: leave one of them out": rows.per_pair is not None
            and state is not None,
            "--per-pair-heads chooses rows of --per-pair: add --per-pair FILE.parquet": rows.per_pair_heads is not None
            and rows.per_pair is None,
            "--labels is of every head and all patterns: leave out --pattern and --top": labels
            and bool(pattern or top),
            "--labels needs more than a file of --per-pair holds: give --pairs": labels and by_file,
            "--threshold is for labels, which need all patterns: leave out --pattern and --from": scan.threshold
            != THRESHOLD
            and bool(pattern or by_file),
            "--state and --per-pair are of one kind of attention: name encoder, decoder or cross": (
                of.attention == "all" and bool(state or rows.per_pair)
            ),
            "--attention all reads pairs three times, and standard input can be read once: name a file": (
                of.attention == "all" and STDIN in files.paths
            ),
            "--from is of the kind of attention that --per-pair wrote: leave out --attention": by_file
            and of.attention != "encoder",
            "--split needs the text of pairs, which a file of --per-pair does not hold: give --pairs": by_file
            and split,
        }
    )
    if rows.per_pair_heads is not None:
        check_heads_are_named(rows.per_pair_heads)
    keeping = None if state is None else place_of(state)
    parts = {} if by_file else parts_of(files.paths, rows.per_pair, where.output, where.signature, state=keeping)
    destination = where.destination()
    labelled = not pattern and not by_file
    results: list[Ranking] = []
    for kind in of.kinds:
        named, options = (
            (with_own(pattern or (), ALL_PATTERNS)[0], scan) if by_file else of.options(scan, kind, pattern)
        )
        asked = tuple(known for known in options.patterns if not named or known.id in named)
        options = replace(options, on_long=files.when_long(), patterns=asked, split=split, labelled=labelled)
        request: Rank | RankFile = (
            RankFile(rows.from_file, tuple(named))
            if rows.from_file
            else Rank(of.pairs(files.source(), kind), options, None, keeping, rows.per_pair, rows.per_pair_heads)
        )
        result, interrupted = answered(request, KEEPS)
        results.append(result)
        if interrupted:
            break
    if by_file:
        if scan.by not in (None, result.reading.by):
            raise PairsError(f"{rows.from_file} is {result.reading}", f"run heads --by {scan.by} --per-pair again")
        result = result.with_reading(special=scan.special)
        results = [result]
    for result in results:
        for line in (*_few_asked(result, named or result.scores.patterns), *_aligned(result)):
            say(line)
    listed = best or bool(pattern or top) or result.labels is None
    from rich.console import Group

    from attnscan.views.terminal.ranking import best_heads_view, ranking_view

    def view(width: int) -> RenderableType:
        if listed:
            shown = (
                best_heads_view(ranking, named or ranking.scores.patterns, top or (10 if pattern else 5), width)
                for ranking in results
            )
        else:
            shown = (ranking_view(ranking, width) for ranking in results)
        return Group(*shown)

    def frame() -> pd.DataFrame:
        tables = (result.to_frame((named or result.scores.patterns) if listed else None, top) for result in results)
        return of_kinds(list(tables))

    best_heads = (_best(ranking, (named or ranking.scores.patterns) if listed else ()) for ranking in results)
    best_head = next(filter(None, best_heads), None)
    command = () if best_head is None else ("head", best_head)
    surround = files.frame(result.signature.pairs_read, scan.model, *command)
    surround = replace(surround, options=(*surround.options, *of.typed(best_head or "")))
    if by_file:
        surround = replace(surround, above=(f"pairs  {rows.from_file}",))
    destination.emit(Shown(frame, view, surround), interrupted=interrupted)
    if interrupted:
        end_interrupted(parts)


def _best(result: Ranking, names: Sequence[str]) -> str | None:
    """The best head of the first of some patterns that heads have scores for; without patterns, of the first kind.

    None if there is no such head.
    """
    ranked = (result.scores.grid[order[0]] for order in map(result.order, names) if len(order))
    heads = ranked if names else (head for kind in result.behaviours.kinds for head in kind.heads)
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
