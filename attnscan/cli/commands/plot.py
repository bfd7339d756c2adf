"""The command `attnscan plot`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnscan.cli.bars import answered, working
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import FileRole, check_pictures_can_be_drawn, picture_format_of
from attnscan.cli.messages import warned
from attnscan.cli.options import (
    OfOneAttention,
    OneInput,
    PairFiles,
    Treebanks,
    Window,
    check_usage,
    heads_option,
    request_of,
    window_of,
)
from attnscan.results.files import check_writable, write_file
from attnscan.results.grid import check_heads_are_named
from attnscan.run.requests import Classify, HoldAgainst, Rank, Request
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    "attnscan plot --predictive off -o heads.svg",
    'attnscan plot "The cat sat." --kind head --heads 0-2 --lines -o head.pdf',
)
Kind = Literal["map", "scores", "head", "layers", "syntax"]


@flattened
def plot(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .pdf or .png."), FileRole.WRITTEN
    ],
    kind: Annotated[
        Kind,
        typer.Option(
            "--kind",
            help="map: what heads do; scores, layers: their scores, by layer; head: the weights of --heads.",
        ),
    ] = "map",
    heads: Annotated[str | None, heads_option("Heads to draw: 2-0,6-11, layer:2 or all.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Draw weights as lines, for --kind head.")] = False,
    width: Annotated[
        float,
        typer.Option("--width", metavar="INCHES", min=2, max=20, help="Width of the picture."),
    ] = 3.3,
    window: Window = None,
    given: OneInput,
    of: OfOneAttention,
    files: PairFiles,
    trees: Treebanks,
    scan: Annotated[ScanOptions, Without("model")],
) -> None:
    if kind == "syntax" or trees.treebank or trees.held:
        check_usage({"--attention is not for --kind syntax": of.attention is not None})
        request: Request = _of_trees(kind, trees, given, files, scan)
    else:
        from attnscan.results.head_weights import Selection

        keep = kind == "head" and Selection(heads, window=window_of(window), is_drawn=True)
        asked = scan.predictive if kind in ("map", "scores", "layers") else "off"  # of the others, weights are drawn
        of = of.resolved(heads)
        _, options = of.options(replace(scan, predictive=asked), of.kinds[0], None)
        read = request_of(given, files, options, keep=keep, labelled=kind == "map")
        if isinstance(read, Classify):
            request = replace(read, input=of.input(given, of.kinds[0]))
        else:
            request = replace(read, pairs=of.pairs(read.pairs, of.kinds[0]))
    of_pairs = isinstance(request, Rank)
    check_usage(
        {
            "--kind head draws one input: give a sentence, or two": of_pairs and kind == "head",
            "--kind head needs --heads": kind == "head" and heads is None,
            "--heads is for --kind head": heads is not None and kind != "head",
            "--lines is for --kind head": lines and kind != "head",
            "--window is for --kind head": window is not None and kind != "head",
        }
    )
    suffix = picture_format_of(output)
    check_writable(output)
    if heads is not None:
        check_heads_are_named(heads)
    check_pictures_can_be_drawn()
    result = answered(request)
    with warned(), working("drawing"):
        from attnscan.views.pictures.look import PictureFile
        from attnscan.views.pictures.picture import picture

        look = PictureFile(suffix, width)
        drawn = picture(result, kind, look, heads=heads or (), lines=lines)
    write_file(output, drawn)


def _of_trees(kind: Kind, trees: Treebanks, given: OneInput, files: PairFiles, scan: ScanOptions) -> HoldAgainst:
    """What a picture of syntax asks. Raises: typer.BadParameter for what does not go together."""
    usual, names = ScanOptions(), {"unit": "--unit", "related": "--no-related", "threshold": "--threshold"}
    check_usage(
        {
            "--treebank and --held are for --kind syntax": kind != "syntax",
            "--kind syntax needs --treebank FILE.conllu": not trees.treebank,
            **{f"{o} is not for --kind syntax": getattr(scan, n) != getattr(usual, n) for n, o in names.items()},
        }
    )
    return trees.request(given, files, scan)
