"""The command `attnscan explain`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli import completion
from attnscan.cli.bars import working
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.options import (
    PairFiles,
    ScanChoices,
    SentenceA,
    SentenceB,
    Token,
    Where,
    check_is_sentence,
    pattern_name,
)
from attnscan.cli.screen_frame import ScreenFrame, about_input, about_pairs, options_of
from attnscan.cli.session import Passes, opened, tell, tell_unknown
from attnscan.inputs.tokens import token_named
from attnscan.results.grid import are_heads, check_heads_are_named
from attnscan.scan.options import ScanOptions
from attnscan.scoring.own_patterns import with_own

if TYPE_CHECKING:
    from attnscan.results.explanation import Explanations

EXAMPLES = (
    'attnscan explain 0-2 "I went to the store." --token store',
    'attnscan explain 0-2,1-8 "I went to the store." --csv > explained.csv',
)


@flattened
def explain(
    *,
    heads: Annotated[
        str | None,
        typer.Argument(
            metavar="HEADS", autocompletion=completion.heads, help="2-0, or 2-0,6-11, or layer:2.", show_default=False
        ),
    ] = None,
    a: SentenceA = None,
    b: SentenceB = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Every head; no HEADS are given then.")] = False,
    token: Token = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            "-p",
            metavar="PATTERN",
            callback=lambda name: None if name is None else pattern_name(name),
            autocompletion=completion.patterns,
            help="Explain this one, by name, letter or FILE.py:FUNCTION. [default: each head's own]",
        ),
    ] = None,
    files: PairFiles,
    scan: Annotated[
        ScanChoices, Without("unit", "norm", "truncate", "predictive_words", "predictive_pairs")
    ] = ScanChoices(predictive="off"),
    where: Where,
) -> None:
    if all_heads:
        if b is not None:
            raise typer.BadParameter("--all takes the place of HEADS: give only the sentences")
        heads, a, b = "all", heads, a
    if heads is None or (a is None and " " in heads.strip() and not are_heads(heads)):
        raise typer.BadParameter(f"HEADS is missing: give --all, or name some, as in {EXAMPLES[0]}")
    check_is_sentence(a, "give HEADS or --all" if all_heads else "HEADS come once, before the sentence")
    check_heads_are_named(heads)
    if a is not None and (files.pairs or [option for option in files.chosen() if option != "--on-long"]):
        raise typer.BadParameter("give sentences or --pairs, but not both")
    if token is not None and a is None:
        raise typer.BadParameter("--token is a token of one input: give its sentence")
    if pattern == "predictive" and (a is None or scan.predictive == "off"):
        raise typer.BadParameter("predictive is explained by one input: give its sentence, and --predictive auto")
    destination = where.destination()
    query = None
    names, patterns = with_own([] if pattern is None else [pattern])
    pattern = names[0] if names else None
    if a is not None:
        options = scan.options(on_long=files.on_long, patterns=patterns)
        explanations, query = _by_input(a, b, options, heads=heads, pattern=pattern, token=token)
    else:
        options = scan.options(on_long=files.on_long, predictive="off", patterns=patterns)
        explanations = _by_pairs(files, options, heads=heads, pattern=pattern)

    frame = explanations.to_frame if query is None else lambda: explanations.token_frame(query)
    if destination.format == "json":
        destination.emit_object(explanations.to_dict, frame)
        return
    from attnscan.views.terminal.explanation import explanation_view

    if a is not None:  # one input is an anecdote
        screen_frame = ScreenFrame(about_input(a, b), ("explain", heads), (), options_of(scan.model))
    else:
        without = ("ablate", "--each") if "all" in heads else ("ablate", "--heads", heads)
        above = about_pairs(files.paths, explanations.signature.pairs_read)
        screen_frame = ScreenFrame(above, without, (), options_of(scan.model, files.typed()))
    destination.emit(frame, lambda width: explanation_view(explanations, width, query), screen_frame=screen_frame)


def _by_input(
    a: str, b: str | None, options: ScanOptions, *, heads: str, pattern: str | None, token: str | None
) -> tuple[Explanations, int | None]:
    """The explanations by one input, and the index of the token that was asked about."""
    from attnscan.inputs.pairs import Pair, Record

    record = Record(Pair(a, b), "the input")
    with opened(options) as scanner, working("explaining heads") as step:
        from attnscan.studies.explanation import explain_input

        encoded = scanner.encode(record.pair)
        query = None if token is None else token_named(token, encoded.tokens)
        explanations = explain_input(scanner, record, scanner.grid().select(heads), pattern, encoded, step)
    tell(explanations.signature, length=len(encoded.tokens), dtype=options.dtype)
    tell_unknown(scanner, encoded)
    return explanations, query


def _by_pairs(files: PairFiles, options: ScanOptions, *, heads: str, pattern: str | None) -> Explanations:
    passes = Passes(files)
    records = passes.read()
    with opened(options) as scanner, working("explaining heads by pairs", passes.how_many) as step:
        from attnscan.studies.explanation import explain

        chosen = scanner.grid().select(heads)
        explanations = explain(
            scanner, records, chosen, pattern, passes.on_bad, partial(step, "explaining heads by pairs")
        )
    tell(explanations.signature, bad=passes.bad, dtype=options.dtype)
    return explanations
