"""The command `attnscan ablate`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.terms import DRAWS, Replacement

EXAMPLE = "attnscan ablate --pattern delimiter --pattern previous-word"
_MEASURE = "masked-lm, next-sentence, classifier, cls or target. May repeat. [default: by the model's task]"


def ablate(
    context: typer.Context,
    pattern: o.Pattern = None,
    heads: Annotated[str | None, o.option("Switch off these heads: 2-0,6-11 or layer:2.", "HEADS")] = None,
    each: Annotated[bool, o.flag("--each", "Switch off one head at a time: of --heads, or all.")] = False,
    top: Annotated[int | None, o.option("Switch off the N best heads of each pattern.", "N", min=1)] = None,
    replace: Annotated[
        Replacement, o.option("Replace a head's output by zero, or by its mean over all words.")
    ] = "zero",
    draws: Annotated[int, o.option("Compare with at most N sets of other heads.", "N", min=2)] = DRAWS,
    measure: Annotated[list[str] | None, o.option(_MEASURE, "MEASURE")] = None,
) -> None:
    given = context.params
    output = output_of(given, draws=True)
    result = o.call("ablate", given)
    from attnscan.views.terminal.ablation import ablation_view

    first = next(iter(result.by_quantity.values()))
    effects = [effect for effect in first if effect.loss == effect.loss and effect.set.heads]
    most = max(effects, key=lambda effect: effect.loss, default=None)
    command = () if most is None else ("similar", "--heads", ",".join(head.name for head in most.set.heads))
    output.write(
        result.to_frame,
        lambda width: ablation_view(result, width),
        above=about(given, result.signature.pairs_read),
        then=next_command(given, *command),
        draw=o.drawing(result),
    )
