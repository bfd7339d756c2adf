"""The studies of heads: `attnscan ablate`, `attnscan similar`, `attnscan compare`, `attnscan syntax`."""

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import input_lines, output_of
from attnscan.inputs.files import shown
from attnscan.results.choices import (
    MAX_DIVERGENCE,
    MIN_DIFFERENCE,
    N_CONTROL_SETS,
    QUERIES,
    Match,
    Replacement,
)
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import with_own

_MEASURE = "masked-lm, next-sentence, classifier, cls or target. May repeat. [default: by the model's task]"
_WITHIN = "Largest mean divergence within a group, in nats."
_QUERIES = "Compare attention from N words of each input."


def ablate(
    context: typer.Context,
    pattern: o.Pattern = None,
    heads: Annotated[
        str | None, o.option("Switch off these heads: 2-0,6-11 or layer:2.", "HEADS")
    ] = None,
    each: Annotated[
        bool, o.flag("--each", "Switch off one head at a time: of --heads, or all.")
    ] = False,
    top: Annotated[
        int | None, o.option("Switch off the N best heads of each pattern.", "N", min=1)
    ] = None,
    replace: Annotated[
        Replacement, o.option("Replace a head's output by zero, or by its mean over words.")
    ] = "zero",
    draws: Annotated[
        int, o.option("Compare with at most N sets of other heads.", "N", min=2)
    ] = N_CONTROL_SETS,
    measure: Annotated[list[str] | None, o.option(_MEASURE, "MEASURE")] = None,
) -> None:
    output, result = o.answer(context, draws=True)
    from attnscan.views.terminal.ablation import ablation_view

    above = input_lines(context.params, result.signature.pairs_read)
    output.write(
        result.to_frame,
        lambda width: ablation_view(result, width),
        above=above,
        draw=o.drawing(result),
    )


def similar(
    context: typer.Context,
    heads: Annotated[
        str | None, o.option("List the nearest heads of these: 2-0,6-11 or layer:2.", "HEADS")
    ] = None,
    nearest: Annotated[int, o.option("List the N nearest heads of each.", "N", min=1)] = 3,
    within: Annotated[float, o.option(_WITHIN, "X", min=0, max=0.7)] = MAX_DIVERGENCE,
    queries: Annotated[int, o.option(_QUERIES, "N", min=1)] = QUERIES,
    matrix: Annotated[
        bool, o.flag("--matrix", "Write every head's divergence from every other.")
    ] = False,
) -> None:
    output = output_of(context.params, draws=True)
    if matrix and output.format == "table":
        raise typer.BadParameter(
            "--matrix is for a file or for programs: give --csv, --format or -o"
        )
    result = o.call("similar", context.params)
    from attnscan.views.terminal.comparison import similarity_view

    output.write(
        lambda: result.to_matrix(heads) if matrix else result.to_frame(nearest, heads),
        lambda width: similarity_view(result, width, heads, nearest),
        above=input_lines(context.params, result.signature.pairs_read),
        draw=o.drawing(result),
    )


def compare(
    context: typer.Context,
    model_a: Annotated[str, o.argument("A hub id, a directory, or 'bundled'.", "MODEL_A")],
    model_b: Annotated[
        str, o.argument("The model to compare with, such as A fine-tuned.", "MODEL_B")
    ],
    match: Annotated[
        Match, o.option("Compare heads of the same place, or each with the most similar one.")
    ] = "place",
    least: Annotated[
        float, o.option("Least difference of scores that survives.", "X", min=0, max=1)
    ] = MIN_DIFFERENCE,
    pattern: o.Pattern = None,
    heads: Annotated[
        str | None, o.option("List the differences of these heads: 2-0,6-11 or layer:2.", "HEADS")
    ] = None,
    top: Annotated[
        int | None, o.option("List the N greatest differences of each pattern.", "N", min=1)
    ] = None,
) -> None:
    output, result = o.answer(context, draws=True)
    from attnscan.views.terminal.comparison import comparison_view

    wanted, _ = with_own(pattern or (), ALL_PATTERNS)
    names = [name for name in result.patterns if name in wanted or not wanted]
    output.write(
        lambda: result.to_frame(names, heads, top),
        lambda width: comparison_view(result, names, width, heads, top),
        above=input_lines(context.params, int(result.model_labels[0].scores.every_key.pairs.max())),
        draw=o.drawing(result, names),
    )


def syntax(
    context: typer.Context,
    treebank: Annotated[
        list[str], o.option("Read sentences with trees, in CoNLL-U. May repeat.", "FILE.conllu")
    ],
    held: Annotated[
        list[str] | None,
        o.option("A second treebank, in which gains are tested again.", "FILE.conllu"),
    ] = None,
    relation: Annotated[
        str | None, o.option("Rank all heads for this relation: obj, det, all.", "R")
    ] = None,
    heads: Annotated[
        str | None, o.option("Write rows of these heads: 2-0,6-11 or layer:2.", "HEADS")
    ] = None,
    show_all: Annotated[
        bool, o.flag("--all", "Show every row, or every head for --relation.")
    ] = False,
    subtypes: Annotated[bool, o.flag("--subtypes", "Keep subtypes, such as nsubj:pass.")] = False,
) -> None:
    output = output_of(context.params, draws=True)
    if heads is not None and output.format == "table":
        raise typer.BadParameter("--heads is for tables: give --csv, --format or -o")
    result = o.call("syntax", context.params)
    from attnscan.views.terminal.syntax import syntax_view

    chosen = None if heads is None else result.grid.select(heads)
    files = {"treebank": treebank, "held": held or ()}
    output.write(
        lambda: result.to_frame(relation, chosen),
        lambda width: syntax_view(result, width, relation, every=show_all),
        above=[f"{name}  {', '.join(map(shown, paths))}" for name, paths in files.items() if paths],
        draw=o.drawing(result),
    )
