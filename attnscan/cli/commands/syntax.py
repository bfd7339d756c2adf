"""The command `attnscan syntax`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import output_of
from attnscan.inputs.files import shown

EXAMPLE = "attnscan syntax --treebank en_pud-ud-test.conllu"


def syntax(
    context: typer.Context,
    treebank: Annotated[list[str], o.option("Read sentences with trees, in CoNLL-U. May repeat.", "FILE.conllu")],
    held: o.Held = None,
    relation: Annotated[str | None, o.option("Rank all heads for this relation: obj, det, all.", "R")] = None,
    heads: Annotated[str | None, o.option("Write rows of these heads: 2-0,6-11 or layer:2.", "HEADS")] = None,
    every: Annotated[bool, o.flag("--all", "Show every row, or every head for --relation.")] = False,
    subtypes: Annotated[bool, o.flag("--subtypes", "Keep subtypes, such as nsubj:pass.")] = False,
) -> None:
    given = context.params
    output = output_of(given, draws=True)
    if heads is not None and output.format == "table":
        raise typer.BadParameter("--heads is for tables: give --csv, --format or -o")
    result = o.call("syntax", given)
    from attnscan.views.terminal.syntax import syntax_view

    chosen = None if heads is None else result.grid.select(heads)
    files = {"treebank": treebank, "held": held or ()}
    output.write(
        lambda: result.to_frame(relation, chosen),
        lambda width: syntax_view(result, width, relation, every=every),
        above=[f"{name}  {', '.join(map(shown, paths))}" for name, paths in files.items() if paths],
        draw=o.drawing(result),
    )
