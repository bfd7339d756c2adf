"""The command `attnscan classify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.apart import FileRole
from attnscan.cli.options import (
    OneInput,
    Patterns,
    ScanChoices,
    Threshold,
    Where,
    Without,
    WithoutDelimiters,
    flattened,
)
from attnscan.cli.session import classified
from attnscan.results.files import check_suffix, check_writable, write_file
from attnscan.results.terms import THRESHOLD
from attnscan.scoring.own_patterns import with_own

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = (
    'attnscan classify "The cat sat on the mat." "The cat lay on the rug."',
    'attnscan classify "I went home." --pattern next-word --csv > heads.csv',
)


@flattened
def classify(
    *,
    given: OneInput,
    pattern: Patterns = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Rank every head.")] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="How many heads to show. [default: those that fit a line]"),
    ] = None,
    threshold: Threshold = THRESHOLD,
    without_delimiters: WithoutDelimiters = False,
    scan: Annotated[ScanChoices, Without("model", "predictive_pairs")],
    where: Where,
    save_weights: Annotated[
        Path | None,
        typer.Option("--save-weights", metavar="FILE.npz", help="Save the attention weights as well."),
        FileRole.WRITTEN,
    ] = None,
) -> None:
    given.check('give a sentence, or have a head shown by: attnscan show 0-2 "A sentence."')
    if given.weights is not None and save_weights is not None:
        raise typer.BadParameter("--weights has nothing to save")
    if scan.norm and save_weights is not None:
        raise typer.BadParameter(
            "--save-weights keeps weights as they are: leave out --norm, which does not change them"
        )
    destination = where.destination()
    names, patterns = with_own(pattern or ())
    options = scan.options(model=given.model, threshold=threshold, patterns=patterns)
    if save_weights is not None:
        check_suffix(save_weights, ".npz", "--save-weights")
        check_writable(save_weights)
    result = classified(given, options, keep=save_weights is not None)
    if save_weights is not None:
        from attnscan.inputs.weights import write_weights

        write_file(save_weights, write_weights(result.kept_attention().saved()))
    names = names or list(result.scores.patterns)
    order = result.ranking(names[0] if pattern else None, without_delimiters=without_delimiters)

    def frame() -> pd.DataFrame:
        every_head = result.to_frame(names, without_delimiters=without_delimiters)
        return every_head.iloc[order].head(top or len(order)) if all_heads or pattern or top else every_head

    from attnscan.views.terminal.classification import all_heads_view, classification_view

    if all_heads:
        destination.emit(frame, lambda width: all_heads_view(result, names, order[:top], width, without_delimiters))
    else:
        destination.emit(frame, lambda width: classification_view(result, names, width, top, without_delimiters))
