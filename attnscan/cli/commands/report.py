"""The command `attnscan report`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from attnscan.cli.bars import answered, working
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Destination, FileRole, write_stdout
from attnscan.cli.messages import say
from attnscan.cli.options import (
    OfAttention,
    OneInput,
    PairFiles,
    Treebanks,
    Window,
    check_one_or_many,
    check_usage,
    heads_option,
    window_of,
)
from attnscan.results.files import check_writable, descriptor, write_file
from attnscan.results.grid import check_heads_are_named
from attnscan.run.requests import Classify, Rank, ReadTrees, Request
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    'attnscan report "The cat sat on the mat." -o page.html',
    "attnscan report --predictive off -o page.html",
)


@flattened
def report(
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE.html", help="Write the page to FILE; - is stdout."),
        FileRole.WRITTEN,
    ],
    given: OneInput,
    files: PairFiles,
    heads: Annotated[
        str | None, heads_option("Include weights of these heads: 2-0,6-11, layer:2. [default: as many as fit]")
    ] = None,
    no_neurons: Annotated[bool, typer.Option("--no-neurons", help="Leave out queries and keys of heads.")] = False,
    size: Annotated[
        float | None,
        typer.Option(
            "--size",
            metavar="MB",
            min=0.1,
            max=10_000,
            help="Largest size of the page. [default: 2, or what --heads needs]",
        ),
    ] = None,
    window: Window = None,
    of: OfAttention,
    trees: Annotated[Treebanks, Without("held")],
    sentences: Annotated[
        str | None,
        typer.Option("--sentences", metavar="NUMBERS", help="Sentences of the treebank: 3,17 or 1-8. [default: 1-8]"),
    ] = None,
    scan: Annotated[ScanOptions, Without("model")],
) -> None:
    of_trees = bool(trees.treebank)
    of_pairs = not of_trees and check_one_or_many(given, files)
    if heads is not None:
        check_heads_are_named(heads)
    of = of.resolved(heads)
    check_usage(
        {
            "--attention is for the page of one input": of.attention != "encoder" and (of_trees or of_pairs),
            "--window is for one text: leave it out with --attention cross or all": window is not None
            and of.attention in ("cross", "all"),
            "--heads are of one kind of attention: name encoder, decoder or cross": heads is not None
            and of.attention == "all",
            "--sentences is for --treebank": sentences is not None and not of_trees,
            "--window and --no-neurons are for the page of one input": of_trees and (no_neurons or window is not None),
            "--heads, --window and --no-neurons are for the page of a sentence, or two: it holds weights": of_pairs
            and (heads is not None or no_neurons or window is not None),
        }
    )
    to_stdout = str(output) == "-"
    number = None if to_stdout else descriptor(output)
    if to_stdout:
        Destination("table")  # says so if there is no standard output
    if sys.stdout.isatty() if to_stdout else number is not None and os.isatty(number):
        raise typer.BadParameter("a page cannot be shown on a terminal: add -o page.html")
    if not to_stdout and number is None and output.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"a page is HTML, and {output} is not called so: -o {output.stem}.html")
    if not to_stdout:
        check_writable(output)
    if of_trees:
        from attnscan.results.trees import sentence_numbers

        asked = trees.request(given, files, scan)
        numbers = () if sentences is None else sentence_numbers(sentences)
        requests: list[Request] = [ReadTrees(asked.pairs, asked.options, numbers=numbers)]
    elif of_pairs:
        options = replace(scan, model=given.model, on_long=files.when_long(), labelled=True)
        requests = [Rank(files.source(), options)]
    else:
        from attnscan.results.head_weights import Selection

        keep = Selection(window=window_of(window), is_drawn=True)
        options = replace(scan, model=given.model, on_long=files.when_long(many=False))
        requests = [Classify(of.input(given, kind), of.options(options, kind, None)[1], keep=keep) for kind in of.kinds]
    results = [answered(request) for request in requests]
    with working("writing the page", skips={"page": "--no-neurons makes it smaller"}):
        from attnscan.views.page.kinds import kinds_page
        from attnscan.views.page.page import page, page_options
        from attnscan.views.page.trees import trees_page

        asked_for = page_options(results[0], heads, neurons=not no_neurons, megabytes=size)
        if of_trees:
            made = trees_page(results[0], asked_for)
        else:
            made = page(results[0], asked_for) if of_pairs else kinds_page(results, asked_for)
    for note in made.notes:
        say(f"{note}; --size allows more{'' if of_pairs or len(results) > 1 else ', and --heads others'}")
    if to_stdout:
        write_stdout(made.html.encode())
    else:
        write_file(output, made.html.encode())
