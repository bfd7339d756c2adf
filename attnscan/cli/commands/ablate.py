"""The command `attnscan ablate`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import OfOneAttention, PairFiles, Patterns, Where
from attnscan.results.grid import check_heads_are_named, names
from attnscan.results.terms import MEASURES, OF_TARGETS
from attnscan.run.requests import Ablate
from attnscan.scan.options import AblationRequest, ScanOptions, asked_for_labels
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


@flattened
def ablate(
    *,
    pattern: Patterns = None,
    sets: AblationRequest = AblationRequest(),
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="MEASURE",
            callback=_measures,
            help="masked-lm, next-sentence, classifier, cls or target. May repeat. [default: by the model's task]",
        ),
    ] = None,
    files: PairFiles,
    of: OfOneAttention,
    scan: Annotated[ScanOptions, Without("predictive_words", "predictive_pairs")],
    where: Where,
) -> None:
    by_pattern = not sets.names_heads
    if not by_pattern and (pattern or sets.top):
        raise typer.BadParameter("--pattern and --top choose by a scan: leave them out, or --heads and --each")
    if "predictive" in (pattern or ()) and scan.predictive == "off":
        raise typer.BadParameter("--predictive off leaves no heads for --pattern predictive")
    if sets.heads is not None:
        check_heads_are_named(sets.heads)
    of, destination = of.resolved(sets.heads), where.destination(draws=True)
    kind = of.kinds[0]
    names, options = of.options(replace(scan, on_long=files.when_long()), kind, pattern)
    asked = asked_for_labels(scan.predictive, names) if by_pattern and kind == "encoder" else "off"
    options = replace(options, predictive=asked)
    sets = replace(sets, patterns=tuple(names), measures=tuple(measure or ()))
    result = answered(Ablate(of.pairs(files.source(labelled=True), kind), options, sets=sets))
    from attnscan.views.terminal.ablation import ablation_view

    command = _next(result)
    surround = files.frame(result.signature.pairs_read, scan.model, *command)
    typed = of.typed(command[-1] if command[:1] != ("heads",) else "") if command else ()
    surround = replace(surround, options=(*surround.options, *typed))
    destination.emit(Shown(result.to_frame, lambda width: ablation_view(result, width), surround, result))


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
    return ("similar", "--heads", names(most.set.heads))
