"""The command `attnscan syntax`."""

from __future__ import annotations

from typing import Annotated

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import ScreenFrame, Shown, destination_of
from attnscan.inputs.read import STDIN, shown
from attnscan.results.grid import check_heads_are_named

EXAMPLES = (
    "attnscan syntax --treebank en_pud-ud-test.conllu",
    "attnscan syntax --treebank train.conllu --held dev.conllu --csv > syntax.csv",
)


def syntax(
    context: typer.Context,
    treebank: Annotated[
        list[str],
        typer.Option("--treebank", metavar="FILE.conllu", help="Read sentences with trees, in CoNLL-U. May repeat."),
    ],
    held: o.Held = None,
    relation: Annotated[
        str | None, typer.Option("--relation", metavar="R", help="Rank all heads for this relation: obj, det, all.")
    ] = None,
    heads: Annotated[str | None, o.heads_option("Write rows of these heads: 2-0,6-11 or layer:2.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every row, or every head for --relation.")] = False,
    subtypes: Annotated[bool, typer.Option("--subtypes", help="Keep subtypes, such as nsubj:pass.")] = False,
) -> None:
    given = context.params
    if heads is not None:
        check_heads_are_named(heads)
    destination = destination_of(given)
    if heads is not None and destination.format == "table":
        raise typer.BadParameter("--heads is for tables: give --csv, --format or -o")
    from attnscan.views.terminal.syntax import syntax_view

    with running() as progress:
        result = attnscan.syntax(**o.arguments_of("syntax", given), progress=progress)
    chosen = None if heads is None else result.grid.select(heads)
    typed = [word for path in treebank if path != STDIN for word in ("--treebank", path)]
    best = result.strongest()
    command = ("syntax", *typed, "--relation", best.relation) if relation is None and best is not None else ()
    surround = ScreenFrame(
        (f"treebank  {', '.join(map(shown, treebank))}", *([f"held  {', '.join(map(shown, held))}"] if held else [])),
        command if all(shown(path) == path for path in treebank) else (),
        options=() if given["model"] is None else ("--model", given["model"]),
    )
    destination.emit(
        Shown(
            lambda: result.to_frame(relation, chosen),
            lambda width: syntax_view(result, width, relation, every=every),
            surround,
        ),
    )
