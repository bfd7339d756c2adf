"""The command `attnscan plot`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnscan.cli import completion
from attnscan.cli.destination import check_pictures_can_be_drawn, picture_format_of
from attnscan.cli.options import OneInput, ScanChoices, Threshold, Without, WithoutDelimiters, flattened
from attnscan.cli.session import kept
from attnscan.results.files import check_writable, write_file
from attnscan.results.heads import check_heads_are_named
from attnscan.results.terms import THRESHOLD
from attnscan.views.pictures.look import Picture

if TYPE_CHECKING:
    from attnscan.results.attention import Attention
    from attnscan.results.classification import Classification

EXAMPLES = (
    'attnscan plot "The cat sat." "The cat ran." -o heads.svg',
    'attnscan plot "The cat sat." --kind head --heads 0-2 --lines -o head.pdf',
)
Kind = Literal["map", "scores", "head", "layers"]


@flattened
def plot(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .pdf or .png.")],
    kind: Annotated[
        Kind,
        typer.Option(
            "--kind", help="What each head does, every score, single heads token by token, or scores by layer."
        ),
    ] = "map",
    heads: Annotated[
        str | None,
        typer.Option(
            "--heads",
            metavar="HEADS",
            autocompletion=completion.heads,
            help="For --kind head: 2-0,6-11, layer:2 or all.",
        ),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="For --kind head: lines from token to token.")] = False,
    width: Annotated[
        float, typer.Option("--width", metavar="INCHES", min=2, max=20, help="Of the picture; a column's is 3.3.")
    ] = 3.3,
    given: OneInput,
    threshold: Threshold = THRESHOLD,
    without_delimiters: WithoutDelimiters = False,
    scan: Annotated[ScanChoices, Without("model", "predictive_pairs")],
) -> None:
    """Draw what heads do on one input, for a paper or a slide."""
    given.check()
    if (kind == "head") != (heads is not None) or (lines and kind != "head"):
        raise typer.BadParameter("--kind head needs --heads, and --heads and --lines need --kind head")
    if without_delimiters and kind not in ("scores", "layers"):
        raise typer.BadParameter("--without-delimiters is for --kind scores and --kind layers")
    picture = picture_format_of(output)
    check_writable(output)
    if heads is not None:
        check_heads_are_named(heads)
    check_pictures_can_be_drawn()
    asked = "off" if kind == "head" else scan.predictive  # weights alone are drawn
    options = scan.options(model=given.model, threshold=threshold, predictive=asked)
    result, attention = kept(given, options)
    if heads is not None:
        content = _heads(result, attention, heads, picture, width, lines)
    else:
        content = _scores(result, kind, picture, width, without_delimiters)
    write_file(output, content)


def _heads(
    result: Classification, attention: Attention, heads: str, format: Picture, width: float, lines: bool
) -> bytes:
    from attnscan.views.pictures.look import Look
    from attnscan.views.pictures.picture import picture

    return picture(replace(result, attention=attention), "head", Look(format, width), heads=heads, lines=lines)


def _scores(result: Classification, kind: Kind, format: Picture, width: float, without_delimiters: bool) -> bytes:
    from attnscan.views.pictures.look import Look
    from attnscan.views.pictures.picture import picture

    return picture(result, kind, Look(format, width), without_delimiters=without_delimiters)
