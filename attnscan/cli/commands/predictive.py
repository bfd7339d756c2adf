"""The command `attnscan predictive`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from attnscan.cli.bars import answered
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Shown
from attnscan.cli.options import OnLongOption, SentenceB, Where, on_long_of
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.run.requests import Predictive
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    'attnscan predictive "I went to the store."',
    'attnscan predictive "I went to the store." --csv > predictive.csv',
)


@flattened
def predictive(
    *,
    a: Annotated[str, typer.Argument(metavar="A", help="Sentence A.")],
    b: SentenceB = None,
    on_long: OnLongOption = None,
    scan: Annotated[ScanOptions, Without("by", "special", "related", "predictive_pairs", "seed", "threshold")],
    where: Where,
) -> None:
    if scan.predictive == "off":
        raise typer.BadParameter("--predictive off measures nothing: leave it out, or choose cpmi or distance")
    destination = where.destination()
    options = replace(scan, on_long=on_long_of(on_long, many=False))
    from attnscan.inputs.sentence import Pair

    pair = Pair(a, b)
    result = answered(Predictive(pair, options), skips={})
    from attnscan.views.terminal.head_weights import dependencies_view

    command = ("classify", "--pattern", "predictive")
    surround = ScreenFrame(about_input(a, b), command, pair.texts, options_of(scan.model))
    destination.emit(Shown(result.to_frame, lambda width: dependencies_view(result, width), surround))
