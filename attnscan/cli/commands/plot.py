"""The command `attnscan plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import attnscan
from attnscan.cli import options as o
from attnscan.cli.messages import running
from attnscan.cli.output import check_pictures_can_be_drawn, picture_format_of
from attnscan.results.files import check_writable
from attnscan.results.grid import check_heads_are_named

EXAMPLES = (
    "attnscan plot --predictive off -o heads.svg",
    'attnscan plot "The cat sat." --kind head --heads 0-2 --lines -o head.pdf',
)
Kind = Literal["map", "scores", "head", "layers", "profile", "syntax"]


def plot(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .pdf or .png.")],
    a: o.A = None,
    b: o.B = None,
    kind: Annotated[
        Kind,
        typer.Option(
            "--kind",
            help="map: what heads do; scores, layers: their scores, by layer; head: the weights of --heads; "
            "profile: where attention goes.",
        ),
    ] = "map",
    heads: Annotated[str | None, o.heads_option("Heads to draw: 2-0,6-11, layer:2 or all.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Draw weights as lines, for --kind head.")] = False,
    width: Annotated[
        float,
        typer.Option("--width", metavar="INCHES", min=2, max=20, help="Width of the picture."),
    ] = 3.3,
    window: o.Window = None,
    treebank: o.Treebank = None,
    held: o.Held = None,
) -> None:
    given = context.params
    picture_format_of(output)
    check_writable(output)
    if heads is not None:
        check_heads_are_named(heads)
    check_pictures_can_be_drawn()
    with running() as progress:
        attnscan.plot(**o.arguments_of("plot", given), progress=progress)
