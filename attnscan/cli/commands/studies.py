"""The studies of heads: `attnscan similar`, `attnscan compare`, `attnscan syntax`."""

from typing import Annotated

import typer

from attnscan.cli.calls import answer, call, drawing
from attnscan.cli.options import flag, option
from attnscan.cli.output import input_lines, links_lines, output_of
from attnscan.inputs.files import shown
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import with_own


def similar(
    context: typer.Context,
    nearest: Annotated[int, option("List the N nearest heads of each.", "N", min=1)] = 3,
    matrix: Annotated[
        bool, flag("--matrix", "Write every head's divergence from every other.")
    ] = False,
) -> None:
    output = output_of(context.params, draws=True)
    if matrix and output.format == "table":
        raise typer.BadParameter(
            "--matrix is for a file or for programs: give --csv, --format or -o"
        )
    result = call("similar", context.params)
    heads = context.params["heads"]
    from attnscan.views.terminal.comparison import similarity_view

    output.write(
        lambda: result.to_matrix(heads) if matrix else result.to_frame(nearest, heads),
        lambda width: similarity_view(result, width, heads, nearest),
        above=input_lines(context.params, result.signature.pairs_read),
        draw=drawing(result),
    )


def compare(
    context: typer.Context,
    top: Annotated[
        int | None, option("List the N greatest differences of each pattern.", "N", min=1)
    ] = None,
) -> None:
    output, result = answer(context)
    from attnscan.views.terminal.comparison import comparison_view

    wanted, _ = with_own(context.params["pattern"] or (), ALL_PATTERNS)
    names = [name for name in result.patterns if name in wanted or not wanted]
    heads = context.params["heads"]
    output.write(
        lambda: result.to_frame(names, heads, top),
        lambda width: comparison_view(result, names, width, heads, top),
        above=input_lines(context.params, int(result.model_labels[0].scores.every_key.pairs.max())),
        draw=drawing(result, names),
    )


def syntax(
    context: typer.Context,
    heads: Annotated[
        str | None, option("Write rows of these heads: 2-0,6-11 or layer:2.", "HEADS")
    ] = None,
    show_all: Annotated[
        bool, flag("--all", "Show every row, or every head for --relation.")
    ] = False,
) -> None:
    output = output_of(context.params, draws=True)
    if heads is not None and output.format == "table":
        raise typer.BadParameter("--heads is for tables: give --csv, --format or -o")
    result = call("syntax", context.params)
    from attnscan.views.terminal.syntax import syntax_view

    relation = context.params["relation"]
    chosen = None if heads is None else result.grid.select(heads)
    above = []
    if context.params["treebank"]:
        above.append(f"treebank  {', '.join(map(shown, context.params['treebank']))}")
    for name in ("links", "held"):
        above += links_lines(name, context.params[name] or ())
    output.write(
        lambda: result.to_frame(relation, chosen),
        lambda width: syntax_view(result, width, relation, every=show_all),
        above=above,
        draw=drawing(result),
    )
