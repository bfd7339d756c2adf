"""The command `attnscan predictive`."""

from __future__ import annotations

from typing import Annotated

import typer

from attnscan.cli.bars import working
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.options import ScanChoices, SentenceB, Where, check_is_sentence
from attnscan.cli.screen_frame import ScreenFrame, about_input, options_of
from attnscan.cli.session import asking, opened, tell, tell_unknown

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
    check_is_sentence(a, "give a sentence; the model is asked about its words")
    if scan.predictive == "off":
        raise typer.BadParameter("--predictive off leaves nothing to ask: leave it out, or say cpmi or distance")
    destination = where.destination()
    options = scan.options()
    from attnscan.inputs.pairs import Pair

    pair = Pair(a, b)
    with opened(options) as scanner, working("hiding words", skips={}) as step:
        from attnscan.scan.one_input import dependencies

        encoded = scanner.encode(pair)
        result = dependencies(scanner, pair, asking(step), encoded)
    tell(result.signature, length=scanner.loaded.limit, dtype=options.dtype)
    tell_unknown(scanner, encoded)
    from attnscan.views.terminal.dependencies import dependencies_view

    sentences = tuple(pair.sentences)
    screen_frame = ScreenFrame(
        about_input(a, b), ("classify", "--pattern", "predictive"), sentences, options_of(scan.model)
    )
    destination.emit(result.to_frame, lambda width: dependencies_view(result, width), screen_frame=screen_frame)
