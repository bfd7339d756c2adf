"""The command `attnscan predictive`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli.messages import progress
from attnscan.cli.options import ScanChoices, SentenceB, Where, Without, flattened
from attnscan.cli.session import opened, tell

EXAMPLES = (
    'attnscan predictive "I went to the store."',
    'attnscan predictive "I went to the store." --csv > predictive.csv',
)


@flattened
def predictive(
    *,
    a: Annotated[str, typer.Argument(metavar="A", help="Sentence A.")],
    b: SentenceB = None,
    scan: Annotated[ScanChoices, Without("norm", "no_related", "predictive_pairs", "seed")],
    where: Where,
) -> None:
    destination = where.destination()
    options = scan.options()
    from attnscan.inputs.pairs import Pair

    pair = Pair(a, b)
    with opened(options) as scanner, progress("hidden sequences") as report:
        from attnscan.scan.one_input import dependencies

        result = dependencies(scanner, pair, report)
    tell(result.signature, length=scanner.loaded.limit)
    from attnscan.views.terminal.dependencies import dependencies_view

    destination.emit(result.to_frame, lambda width: dependencies_view(result, width))
