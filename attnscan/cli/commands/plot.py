"""The command `attnscan plot`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnscan.cli.bars import answered, working
from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import check_pictures_can_be_drawn, picture_format_of
from attnscan.cli.messages import warned
from attnscan.cli.options import OneInput, PairFiles, check_one_or_many, heads_option, request_of
from attnscan.cli.overwrite import FileRole, end_interrupted, parts_of
from attnscan.results.files import check_writable, write_file
from attnscan.results.grid import check_heads_are_named
from attnscan.scan.options import ScanOptions

EXAMPLES = (
    "attnscan plot --predictive off -o heads.svg",
    'attnscan plot "The cat sat." --kind head --heads 0-2 --lines -o head.pdf',
)
Kind = Literal["map", "scores", "head", "layers", "profile", "distance"]


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
            help="map: what heads do; scores, layers: above chance; head: weights; profile: parts; distance.",
        ),
    ] = "map",
    heads: Annotated[str | None, heads_option("For --kind head and distance: 2-0,6-11, layer:2 or all.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="With --kind head: draw lines from token to token.")] = False,
    width: Annotated[
        float,
        typer.Option(
            "--width", metavar="INCHES", min=2, max=20, help="Width of the picture; a journal's column has 3.3."
        ),
    ] = 3.3,
    given: OneInput,
    files: PairFiles,
    scan: Annotated[ScanOptions, Without("model")],
) -> None:
    of_pairs = check_one_or_many(given, files)
    if of_pairs and kind == "head":
        raise typer.BadParameter("--kind head is of one input: give a sentence, or two")
    of_heads = kind in ("head", "distance")
    if of_heads and heads is None:
        raise typer.BadParameter(f"--kind {kind} needs --heads")
    if heads is not None and not of_heads:
        raise typer.BadParameter("--heads is for --kind head and --kind distance")
    if lines and kind != "head":
        raise typer.BadParameter("--lines is for --kind head")
    suffix = picture_format_of(output)
    check_writable(output)
    if heads is not None:
        check_heads_are_named(heads)
    check_pictures_can_be_drawn()
    asked = scan.predictive if kind in ("map", "scores", "layers") else "off"  # weights alone are drawn
    parts = parts_of(files.paths, output) if of_pairs else {}
    fits = kind in ("profile", "distance")
    scan = replace(scan, predictive=asked)
    request = request_of(given, files, scan, keep=kind == "head", labelled=kind == "map", profile=fits)
    result, interrupted = answered(request)
    result = result.known_profile() if fits and not of_pairs else result
    with warned(), working("drawing"):
        from attnscan.views.pictures.look import PictureFile
        from attnscan.views.pictures.picture import picture

        look = PictureFile(suffix, width)
        drawn = picture(result, kind, look, heads=heads or (), lines=lines)
    write_file(parts.get(output, output) if interrupted else output, drawn)
    if interrupted:
        end_interrupted(parts)
