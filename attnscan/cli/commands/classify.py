"""The command `attnscan classify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running, say
from attnscan.cli.output import about, next_command, output_of
from attnscan.results.tables import of_kinds

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.heads import HeadScores

EXAMPLE = 'attnscan classify "The cat sat on the mat." "The cat lay on the rug."'


def classify(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    pattern: o.Pattern = None,
    every: Annotated[bool, o.flag("--all", "List every head.")] = False,
    top: Annotated[int | None, o.option("List the N best heads. [default: 10]", "N", min=1)] = None,
    save_weights: Annotated[Path | None, o.option("Also save the attention weights.", "FILE.npz")] = None,
) -> None:
    given, is_listed = context.params, bool(every or pattern or top)
    output = output_of(given)
    with running() as progress:
        answer: Any = attnscan.classify(**o.arguments_of("classify", given), keep_attention=False, progress=progress)
    results: list[HeadScores] = list(answer.values()) if given["attention"] == "all" else [answer]
    from attnscan.views.behaviour import notes_of
    from attnscan.views.terminal.heads import all_heads_view, classification_view

    for result in results if output.format == "table" else ():
        for note in notes_of(result, listed=is_listed):
            say(note)

    def view(width: int) -> RenderableType:
        from rich.console import Group

        if not is_listed:
            return Group(*(classification_view(result, width, None) for result in results))
        most = top or (None if every else 10)
        ranked = ((result, [result.grid[number] for number in _ranked(result)]) for result in results)
        return Group(*(all_heads_view(result, _patterns(result), heads, width, most, None) for result, heads in ranked))

    def frame(result: HeadScores) -> pd.DataFrame:
        rows, ranked = result.to_frame(_patterns(result)), _ranked(result)
        listed = ranked[:top] if top else [*ranked, *(n for n in range(len(rows)) if n not in ranked)]
        return rows.iloc[listed] if is_listed else rows

    best = [results[0].grid[number].name for number in _ranked(results[0])[:1]]
    command = ("show" if given["weights"] is not None else "head", *best) if best else ()
    output.write(
        lambda: of_kinds(list(map(frame, results))),
        view,
        above=about(given) if is_listed else (),  # else its tokens are shown
        then=next_command(given, *command),
    )


def _patterns(result: HeadScores) -> tuple[str, ...]:
    return result.pattern or tuple(result.scores.patterns)


def _ranked(result: HeadScores) -> list[int]:
    """The numbers of heads in the order of their ranks, by the first pattern that was asked for and has any."""
    return list(next(filter(len, map(result.order, result.pattern or [None])), ()))
