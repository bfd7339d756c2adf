"""What heads do: `attnscan classify`, `attnscan heads`, `attnscan profile`, `attnscan predictive`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.output import input_lines, next_command, output_of, running, say
from attnscan.results.files import join_kinds
from attnscan.scoring.patterns import is_own
from attnscan.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.heads import HeadScores

_TOP = "List the N best heads of a pattern. [default: 10; with --best 5]"
_CLASSES = "List the N largest classes of a head. [default: from 0.05]"
_SHOWN = "Show these heads: 2-0,6-11 or layer:2; one is shown in full."


def classify(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    pattern: o.Pattern = None,
    show_all: Annotated[bool, o.flag("--all", "List every head.")] = False,
    top: Annotated[int | None, o.option("List the N best heads. [default: 10]", "N", min=1)] = None,
    save_weights: Annotated[
        Path | None, o.option("Also save the attention weights.", "FILE.npz")
    ] = None,
) -> None:
    params, is_listed = context.params, bool(show_all or pattern or top)
    output = output_of(params)
    with running() as progress:
        answer: Any = attnscan.classify(
            **o.arguments_of("classify", params), keep_attention=False, progress=progress
        )
    results: list[HeadScores] = list(answer.values()) if params["attention"] == "all" else [answer]
    from attnscan.views.behaviour import notes_of
    from attnscan.views.terminal.heads import all_heads_view, first_screen

    for result in results if output.format == "table" else ():
        for note in notes_of(result, listed=is_listed):
            say(note)

    def view(width: int) -> Iterator[RenderableType]:
        for result in results:
            if not is_listed:
                yield first_screen(result, width)
                continue
            heads = [result.grid[number] for number in _ranked(result)]
            yield all_heads_view(
                result, _patterns(result), heads, width, top or (None if show_all else 10)
            )

    def frame(result: HeadScores) -> pd.DataFrame:
        rows, ranked = result.to_frame(_patterns(result)), _ranked(result)
        listed = (
            ranked[:top] if top else [*ranked, *(n for n in range(len(rows)) if n not in ranked)]
        )
        return rows.iloc[listed] if is_listed else rows

    above = input_lines(params) if is_listed else []  # else its tokens are shown
    best = [results[0].grid[number].name for number in _ranked(results[0])[:1]]
    suggestion = (
        next_command(params, "show" if params["weights"] else "head", *best) if best else []
    )
    output.write(
        lambda: join_kinds(list(map(frame, results))), view, above=above, suggestion=suggestion
    )


def _patterns(result: HeadScores) -> tuple[str, ...]:
    return result.pattern or tuple(result.scores.patterns)


def _ranked(result: HeadScores) -> list[int]:
    """The numbers of heads in the order of their ranks, by the first pattern that was asked for and has any."""
    return list(next(filter(len, map(result.order, result.pattern or [None])), ()))


def heads(
    context: typer.Context,
    pattern: o.Pattern = None,
    top: Annotated[int | None, o.option(_TOP, "N", min=1)] = None,
    best: Annotated[
        bool, o.flag("--best", "Rank heads by each pattern, in place of the map.")
    ] = False,
    per_pair: Annotated[
        Path | None, o.option("Write the scores of every pair.", "FILE.parquet")
    ] = None,
    held: o.Held = None,
) -> None:
    params, is_listed = context.params, bool(best or pattern or top)
    if params["id"] is not None and (per_pair is None or not params["pairs"]):
        raise typer.BadParameter("--id copies a column of --pairs to --per-pair: give both")
    output = output_of(params)
    answer: Any = o.call("heads", params)
    results: list[HeadScores] = list(answer.values()) if params["attention"] == "all" else [answer]
    for line in (line for result in results for line in _notes(result)):
        say(line)
    count, (first, *_) = results[-1].signature.pairs_read, results
    (line,) = input_lines(params, count)
    title = (
        f"{counted(count, 'pair')} of {line.removeprefix('pairs  ')}"
        if params["pairs"]
        else line[4:]
    )
    from attnscan.views.behaviour import kinds_of
    from attnscan.views.terminal.heads import best_heads_view, first_screen

    def view(width: int) -> Iterator[RenderableType]:
        most = top or (10 if pattern else 5)
        for result in results:
            ranked = (
                best_heads_view(result, result.scores.patterns, most, width, title)
                if is_listed
                else None
            )
            yield ranked or first_screen(result, width, title)

    def frame(result: HeadScores) -> pd.DataFrame:
        return result.to_frame(result.scores.patterns if is_listed else None, top)

    if is_listed:
        best_heads = [
            first.grid[order[0]].name
            for order in map(first.order, first.scores.patterns)
            if len(order)
        ]
    else:
        best_heads = [head.name for _, kind in kinds_of(first.labels) for head in kind.heads]
    suggestion = next_command(params, "head", best_heads[0]) if best_heads else []
    output.write(lambda: join_kinds(list(map(frame, results))), view, suggestion=suggestion)


def _notes(result: HeadScores) -> Iterator[str]:
    """Of how many words `predictive` was measured."""
    if "predictive" in result.scores.patterns and result.signature.predictive != "off":
        place = result.scores.patterns.index("predictive")
        words, pairs = (
            int(values[..., place].max()) for values in (result.table.n, result.table.pairs)
        )
        if pairs:  # else a note says why
            measured = f"{counted(words, 'word')} of {counted(pairs, 'pair')}"
            yield f"predictive was measured on {measured}; --predictive-pairs N asks about more"


def profile(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    heads: Annotated[str | None, o.option(_SHOWN, "HEADS")] = None,
    top: Annotated[int | None, o.option(_CLASSES, "N", min=1)] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            "-p",
            metavar="FILE.py:FUNCTION",
            help="Add a pattern of your own. May repeat.",
        ),
    ] = None,
) -> None:
    if not all(map(is_own, pattern or ())):
        raise typer.BadParameter("--pattern is for patterns of your own, FILE.py:FUNCTION")
    output, result = o.answer(context)
    from attnscan.views.terminal.heads import profile_view

    chosen = None if heads is None else result.grid.select(heads)
    above = input_lines(context.params, result.signature.pairs_read)
    output.write(
        lambda: result.to_frame(chosen, top),
        lambda width: profile_view(result, width, chosen, top),
        above=above,
    )


def predictive(
    context: typer.Context, a: Annotated[str, o.argument("Sentence A.", "A")], b: o.B = None
) -> None:
    output, result = o.answer(context)
    from attnscan.views.terminal.head_weights import dependencies_view

    output.write(
        result.to_frame,
        lambda width: dependencies_view(result, width),
        above=input_lines(context.params),
    )
