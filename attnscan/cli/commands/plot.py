"""The command `attnscan plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from attnscan.cli import options as o
from attnscan.cli.output import PICTURES, check_pictures_can_be_drawn
from attnscan.errors import OutputError
from attnscan.results.files import check_writable

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
    if output.suffix.lower().removeprefix(".") not in PICTURES:
        known = " ".join(f".{suffix}" for suffix in PICTURES)
        raise OutputError(f"cannot tell the format of the picture {output} from its suffix", f"use one of {known}")
    check_writable(output)
    check_pictures_can_be_drawn()
    o.call("plot", context.params)
