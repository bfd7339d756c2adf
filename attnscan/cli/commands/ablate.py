"""The command `attnscan ablate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli import options as o
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.terms import DRAWS, MEASURES, OF_TARGETS, Replacement
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import called

if TYPE_CHECKING:
    from attnscan.results.ablation import Ablation

EXAMPLES = (
    "attnscan ablate --pattern delimiter --pattern previous-word",
    "attnscan ablate --heads 0-2,1-8 --replace mean --csv > worth.csv",
)


def _measures(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in (known := (*MEASURES, OF_TARGETS)):
            raise typer.BadParameter(f"no measure '{name}': there are {', '.join(known)}")
    return list(dict.fromkeys(names or ()))


def ablate(
    context: typer.Context,
    pattern: o.Pattern = None,
    heads: Annotated[str | None, o.heads_option("Switch off these heads: 2-0,6-11 or layer:2.")] = None,
    each: Annotated[bool, typer.Option("--each", help="Switch off one head at a time: of --heads, or all.")] = False,
    top: Annotated[int | None, o.top_option("Switch off the N best heads of each pattern.")] = None,
    replace: Annotated[
        Replacement, typer.Option("--replace", help="Replace a head's output by zero, or by its mean over all words.")
    ] = "zero",
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", min=2, help="Compare with at most N sets of other heads.")
    ] = DRAWS,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="MEASURE",
            callback=_measures,
            help="masked-lm, next-sentence, classifier, cls or target. May repeat. [default: by the model's task]",
        ),
    ] = None,
) -> None:
    given = context.params
    output = output_of(given, draws=True)
    result = o.call("ablate", given)
    from attnscan.views.terminal.ablation import ablation_view

    command = _next(result)
    of_heads = command[-1] if command and command[0] != "heads" else ""
    output.write(
        result.to_frame,
        lambda width: ablation_view(result, width),
        above=about(given, result.signature.pairs_read),
        then=next_command(given, *command, heads=of_heads),
        draw=o.drawing(result),
    )


def _next(result: Ablation) -> tuple[str, ...]:
    """To the heads that cost most: one by how it works, a pattern's by their ranks, others by what they are like."""
    effects = [effect for effect in result.of(result.quantities[0]) if effect.set.heads and effect.loss == effect.loss]
    most = max(effects, key=lambda effect: effect.loss, default=None)
    if most is None:
        return ()
    if len(most.set.heads) == 1:
        return ("explain", most.set.heads[0].name)
    if called(most.set.name, ALL_PATTERNS) is not None:
        return ("heads", "--pattern", most.set.name)
    return ("similar", "--heads", ",".join(head.name for head in most.set.heads))
