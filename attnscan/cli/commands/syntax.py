"""The command `attnscan syntax`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import FileRole, Shown
from attnscan.cli.options import KEEPS, TREEBANK, EngineOption, Held, OnLongOption, State, Where
from attnscan.cli.screen_frame import ScreenFrame, options_of
from attnscan.inputs.option import declared
from attnscan.inputs.read import STDIN, shown
from attnscan.results.files import check_writable, local_path
from attnscan.results.grid import check_heads_are_named
from attnscan.run.reading import FilePairs
from attnscan.run.requests import HoldAgainst
from attnscan.scan.options import ScanOptions, check_engine

EXAMPLES = (
    "attnscan syntax --treebank en_pud-ud-test.conllu",
    "attnscan syntax --treebank train.conllu --held dev.conllu --csv > syntax.csv",
)


@flattened
def syntax(
    *,
    treebank: Annotated[list[str], TREEBANK, FileRole.READ],
    held: Held = None,
    relation: Annotated[
        str | None, typer.Option("--relation", metavar="R", help="Rank all heads for this relation: obj, det, all.")
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option("--heads", metavar="HEADS", help="Write rows of these heads: 2-0,6-11 or layer:2."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every row, or every head for --relation.")] = False,
    subtypes: Annotated[bool, typer.Option("--subtypes", help="Keep subtypes, such as nsubj:pass.")] = False,
    skip_bad: Annotated[bool, declared(FilePairs)["skip_bad"].option] = False,
    on_long: OnLongOption = None,
    scan: Annotated[
        ScanOptions,
        Without("unit", "words", "related", "threshold", "predictive", "predictive_words", "predictive_pairs"),
    ],
    state: State = None,
    engine: EngineOption = "local",
    where: Where,
) -> None:
    check_engine(engine)
    if heads is not None:
        check_heads_are_named(heads)
    destination = where.destination()
    if heads is not None and destination.format == "table":
        raise typer.BadParameter("--heads is for tables: give --csv, --format or -o")
    keeping = None if state is None else local_path(state)
    if keeping is not None:
        check_writable(keeping)
    options = replace(scan, on_long=on_long or "error")
    trees = FilePairs(tuple(treebank), skip_bad=skip_bad)
    others = FilePairs(tuple(held), skip_bad=skip_bad) if held else None
    request = HoldAgainst(trees, options, None, others, relation, subtypes, keeping)
    result = answered(request, KEEPS)
    from attnscan.views.terminal.syntax import syntax_view

    chosen = None if heads is None else result.grid.select(heads)
    typed = [word for path in treebank if path != STDIN for word in ("--treebank", path)]
    best = result.strongest()
    next_command = ("syntax", *typed, "--relation", best.relation) if relation is None and best is not None else ()
    surround = ScreenFrame(
        (f"treebank  {', '.join(map(shown, treebank))}", *([f"held  {', '.join(map(shown, held))}"] if held else [])),
        next_command if all(shown(path) == path for path in treebank) else (),
        options=options_of(scan.model),
    )
    destination.emit(
        Shown(
            lambda: result.to_frame(relation, chosen),
            lambda width: syntax_view(result, width, relation, every=every),
            surround,
        ),
    )
