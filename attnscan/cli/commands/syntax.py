"""The command `attnscan syntax`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import output_of, typed
from attnscan.inputs.files import STDIN, shown

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
    output = output_of(given)
    if heads is not None and output.format == "table":
        raise typer.BadParameter("--heads is for tables: give --csv, --format or -o")
    result = o.call("syntax", given)
    from attnscan.views.terminal.syntax import syntax_view

    chosen = None if heads is None else result.grid.select(heads)
    best, then = result.strongest(), list[str]()
    if relation is None and best is not None and all(shown(path) == path for path in treebank):
        banks = [word for path in treebank if path != STDIN for word in ("--treebank", path)]
        then = ["syntax", *banks, "--relation", best.relation, *typed(given, "model")]
    of_held = (f"held  {', '.join(map(shown, held))}",) if held else ()
    output.write(
        lambda: result.to_frame(relation, chosen),
        lambda width: syntax_view(result, width, relation, every=every),
        above=(f"treebank  {', '.join(map(shown, treebank))}", *of_held),
        then=then,
    )
