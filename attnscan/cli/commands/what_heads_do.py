"""What heads do: `attnscan classify`, `attnscan heads`, `attnscan profile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnscan.cli.calls import answer, call
from attnscan.cli.options import flag, option
from attnscan.cli.output import input_lines, next_command, output_of, say
from attnscan.results.files import join_kinds
from attnscan.scoring.patterns import is_own
from attnscan.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.heads import HeadScores


def classify(
    context: typer.Context,
    show_all: Annotated[bool, flag("--all", "List every head.")] = False,
    top: Annotated[int | None, option("List the N best heads. [default: 10]", "N", min=1)] = None,
) -> None:
    params = context.params
    is_listed = bool(show_all or params["pattern"] or top)
    output = output_of(params)
    results = _by_kind(params, call("classify", params, keep_attention=False))
    from attnscan.views.behaviour import notes_of
    from attnscan.views.terminal.heads import all_heads_view, first_screen

    if output.format == "table":
        for result in results:
            for note in notes_of(result, listed=is_listed):
                say(note)

    def view(width: int) -> Iterator[RenderableType]:
        most = None if show_all else 10
        for result in results:
            if is_listed:
                ranked = [result.grid[number] for number in _ranked(result)]
                yield all_heads_view(result, _patterns(result), ranked, width, top or most)
            else:
                yield first_screen(result, width)

    def frame(result: HeadScores) -> pd.DataFrame:
        rows = result.to_frame(_patterns(result))
        return rows.iloc[_listed(result, top)] if is_listed else rows

    above = input_lines(params) if is_listed else []  # else its tokens are shown
    best = [results[0].grid[number].name for number in _ranked(results[0])[:1]]
    command = "head"
    if params["weights"]:
        command = "show"
    elif len(params["pattern"] or ()) == 1 and is_own(params["pattern"][0]):
        command = "explain"  # which takes a pattern of one's own
    output.write(
        lambda: join_kinds(list(map(frame, results))),
        view,
        above=above,
        suggestion=next_command(params, command, *best) if best else [],
    )


def _by_kind(params: Mapping[str, Any], answer: Any) -> list[HeadScores]:
    """The results of each kind of attention that was asked for."""
    return list(answer.values()) if params["attention"] == "all" else [answer]


def _patterns(result: HeadScores) -> tuple[str, ...]:
    return result.pattern or tuple(result.scores.patterns)


def _ranked(result: HeadScores) -> list[int]:
    """The numbers of heads in the order of their ranks, on the patterns that were asked for."""
    return list(result.ranked_numbers(result.pattern))


def _listed(result: HeadScores, top: int | None) -> list[int]:
    """The numbers of the best heads, or of all: those without a rank come last."""
    ranked = _ranked(result)
    if top:
        return ranked[:top]
    unranked = [number for number in range(len(result.grid)) if number not in ranked]
    return ranked + unranked


def heads(
    context: typer.Context,
    top: Annotated[
        int | None,
        option("List the N best heads of a pattern. [default: 10; with --best 5]", "N", min=1),
    ] = None,
    best: Annotated[
        bool, flag("--best", "Rank heads by each pattern, in place of the map.")
    ] = False,
) -> None:
    params = context.params
    is_listed = bool(best or params["pattern"] or top)
    if params["id"] is not None and (params["per_pair"] is None or not params["pairs"]):
        raise typer.BadParameter("--id copies a column of --pairs to --per-pair: give both")
    output = output_of(params)
    results = _by_kind(params, call("heads", params))
    for result in results:
        for note in _notes(result):
            say(note)
    title = _title(params, results[-1].signature.pairs_read)
    from attnscan.views.terminal.heads import best_heads_view, first_screen

    def view(width: int) -> Iterator[RenderableType]:
        most = top or (10 if params["pattern"] else 5)
        for result in results:
            if is_listed:
                yield best_heads_view(result, result.scores.patterns, most, width, title)
            else:
                yield first_screen(result, width, title)

    def frame(result: HeadScores) -> pd.DataFrame:
        return result.to_frame(result.scores.patterns if is_listed else None, top)

    strongest = _strongest(results[0], by_pattern=is_listed)
    output.write(
        lambda: join_kinds(list(map(frame, results))),
        view,
        suggestion=next_command(params, "head", strongest[0]) if strongest else [],
    )


def _title(params: Mapping[str, Any], count: int) -> str:
    """The pairs that a screen is of, and how many."""
    (line,) = input_lines(params, count)
    if params["pairs"]:
        return f"{counted(count, 'pair')} of {line.removeprefix('pairs  ')}"
    return line.removeprefix("the ")


def _strongest(result: HeadScores, *, by_pattern: bool) -> list[str]:
    """The names of the strongest heads: of each pattern, or of each kind of head.

    Where heads of cross attention are of no kind, those that align words best.
    """
    if by_pattern:
        orders = map(result.order, result.scores.patterns)
        return [result.grid[order[0]].name for order in orders if len(order)]
    from attnscan.views.behaviour import kinds_of

    names = []
    for _, kind in kinds_of(result.labels):
        names += [head.name for head in kind.heads]
    if not names and result.scores.alignment:
        names = [result.grid[number].name for number in result.alignment_order()]
    return names


def _notes(result: HeadScores) -> Iterator[str]:
    """Of how many words `predictive` was measured."""
    patterns: Sequence[str] = result.scores.patterns
    if "predictive" not in patterns or result.signature.predictive == "off":
        return
    place = patterns.index("predictive")
    words = int(result.table.n[..., place].max())
    pairs = int(result.table.pairs[..., place].max())
    if pairs:  # else a note says why
        measured = f"{counted(words, 'word')} of {counted(pairs, 'pair')}"
        yield f"predictive was measured on {measured}; --predictive-pairs N asks about more"


def profile(
    context: typer.Context,
    top: Annotated[
        int | None, option("List the N largest classes of a head. [default: from 0.05]", "N", min=1)
    ] = None,
) -> None:
    if not all(map(is_own, context.params["pattern"] or ())):
        raise typer.BadParameter("--pattern is for patterns of your own, FILE.py:FUNCTION")
    output, result = answer(context)
    from attnscan.views.terminal.heads import profile_view

    heads = context.params["heads"]
    chosen = None if heads is None else result.grid.select(heads)
    output.write(
        lambda: result.to_frame(chosen, top),
        lambda width: profile_view(result, width, chosen, top),
        above=input_lines(context.params, result.signature.pairs_read),
    )
