"""The command `attnscan classify`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running, say
from attnscan.cli.output import Output, about, next_command, output_of
from attnscan.inputs.files import STDIN
from attnscan.results.grid import Head, attention_named, heads_of_kind
from attnscan.results.tables import of_kinds

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.heads import HeadScores

_STREAMED = ("table", "csv", "tsv", "jsonl")
_LISTED = 10  # heads on a screen, unless all or some are asked for
EXAMPLES = (
    'attnscan classify "The cat sat on the mat." "The cat lay on the rug."',
    'attnscan classify "I went home." --pattern next-word --csv > heads.csv',
)


def classify(
    context: typer.Context,
    a: o.A = None,
    b: o.B = None,
    pattern: o.Pattern = None,
    every: Annotated[bool, typer.Option("--all", help="List every head.")] = False,
    heads: Annotated[str | None, o.heads_option("List these heads: 2-0,6-11 or layer:2.")] = None,
    top: Annotated[int | None, o.top_option("List the N best heads. [default: 10]")] = None,
    save_weights: Annotated[
        Path | None,
        typer.Option("--save-weights", metavar="FILE.npz", help="Also save the attention weights."),
    ] = None,
) -> None:
    given, attention = context.params, context.params["attention"]
    if heads is not None and attention != "all":
        given = {**given, "attention": (attention := attention_named(heads, attention))}  # by their letters
    output = output_of(given)
    if given["pairs"] or a == STDIN:
        if b is not None or given["weights"] or save_weights or (a is not None and given["pairs"]):
            raise typer.BadParameter(
                "give a sentence, or two, or --weights, or --pairs, or - alone for lines of standard input"
            )
        _classify_each(given, output)
        return
    with running() as progress:
        answer = attnscan.classify(**o.arguments_of("classify", given), keep_attention=False, progress=progress)
    results: Mapping[Any, HeadScores] = answer if attention == "all" else {attention: answer}
    asked = [({**given, "heads": chosen}, result) for chosen, result in _by_kind(heads, results)]
    listed = _is_listed(given)
    from attnscan.views.behaviour import notes_of

    for _, result in asked if output.format == "table" else ():
        for note in notes_of(result, listed=listed):
            say(note)
    best = [head.name for head in _heads_of(*asked[0])[0][:1]]
    command = ("show" if given["weights"] is not None else "head", *best) if best else ()

    def view(width: int) -> RenderableType:
        from rich.console import Group

        return Group(*(_view(own, result, width) for own, result in asked))

    output.write(
        lambda: of_kinds([_frame(own, result) for own, result in asked]),
        view,
        above=about(given) if listed else (),  # else its tokens are shown
        then=next_command(given, *command, heads=",".join(best)),
    )


def _by_kind(heads: str | None, results: Mapping[Any, HeadScores]) -> Iterator[tuple[str | None, HeadScores]]:
    """Each result with those of the heads that are of its kind of attention; without any, it is left out."""
    for kind, result in results.items():
        chosen = heads if heads is None or len(results) == 1 else heads_of_kind(heads, kind)
        if chosen != "":
            yield chosen, result


def _is_listed(given: Mapping[str, Any]) -> bool:
    """Whether heads are listed, and not summed up: where some were asked for."""
    return bool(given["every"] or given["heads"] is not None or given["pattern"] or given["top"])


def _heads_of(given: Mapping[str, Any], result: HeadScores) -> tuple[list[Head], list[Head]]:
    """Of all heads, or those asked for, the ranked ones in the order of their ranks, and those that have none."""
    ranked_by = _patterns(result) if given["pattern"] else [None]
    order = next(filter(len, map(result.order, ranked_by)), ())
    wanted = dict.fromkeys(result.grid.select(given["heads"] or "all"))
    ranked = [head for head in (result.grid[number] for number in order) if head in wanted]
    return ranked, [head for head in wanted if head not in set(ranked)]


def _patterns(result: HeadScores) -> tuple[str, ...]:
    return result.pattern or tuple(result.scores.patterns)


def _frame(given: Mapping[str, Any], result: HeadScores) -> pd.DataFrame:
    every_head = result.to_frame(_patterns(result))
    if not _is_listed(given):
        return every_head
    ranked, others = _heads_of(given, result)
    listed = ranked[: given["top"]] if given["top"] else [*ranked, *others]
    return every_head.iloc[[result.grid.index(head) for head in listed]]


def _view(given: Mapping[str, Any], result: HeadScores, width: int, nth: int | None = None) -> RenderableType:
    """The screen of one result, the `nth` of several."""
    from attnscan.views.terminal.heads import all_heads_view, classification_view

    if not _is_listed(given):
        return classification_view(result, width, nth)
    top = given["top"] or (None if given["every"] or given["heads"] is not None else _LISTED)
    return all_heads_view(result, _patterns(result), _heads_of(given, result)[0], width, top, nth)


def _classify_each(given: Mapping[str, Any], output: Output) -> None:
    """Score inputs, and write each when it is done."""
    from attnscan.api.one_input import classify_pairs
    from attnscan.api.pairs import lines_input

    if output.format not in _STREAMED:
        known = f"{', '.join(_STREAMED[:-1])} or {_STREAMED[-1]}"
        raise typer.BadParameter(
            f"several inputs are written one after the other, which {output.format} does not allow: use {known}"
        )
    options = o.arguments_of("classify", {**given, "a": None}) | {"keep_attention": False}
    options.setdefault("pairs", lines_input(options.get("on_bad")))
    known_of_all: dict[str, Any] = {}
    try:
        # no bar on a terminal that results come to: each would be written into it
        with output.growing() as write, running(bar=not output.on_terminal) as progress:
            for record, result, signature in classify_pairs(progress=progress, **options):
                number, known_of_all = signature.pairs_read, {"signature": asdict(signature)}

                def frame(record: Any = record, result: HeadScores = result) -> pd.DataFrame:
                    rows = _frame(given, result)
                    places = {"file": record.place.file, "input": record.place.row}
                    places |= {"sentence_a": record.pair.a, "sentence_b": record.pair.b or ""}
                    for column, (name, value) in enumerate(places.items()):
                        rows.insert(column, name, value)
                    return rows

                def view(width: int, number: int = number, result: HeadScores = result) -> RenderableType:
                    return _view(given, result, width, number)

                content = output.content(frame, view)
                is_headed = output.format in ("csv", "tsv") and number > 1
                write(content.partition(b"\n")[2] if is_headed else content)
    except BrokenPipeError:  # the reader of standard output has what it wanted
        output.write_signature(known_of_all)
        raise
    output.write_signature(known_of_all)
