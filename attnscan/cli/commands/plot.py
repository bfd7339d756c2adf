"""The command `attnscan plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from attnscan.cli import options as o

EXAMPLE = "attnscan plot --predictive off -o heads.svg"
Kind = Literal["map", "scores", "head", "layers", "profile"]
_KIND = (
    "map: what heads do; scores, layers: their scores, by layer; head: the weights of --heads; profile: where "
    "attention goes."
)


def plot(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .pdf or .png.")],
    a: o.A = None,
    b: o.B = None,
    kind: Annotated[Kind, o.option(_KIND)] = "map",
    heads: Annotated[str | None, o.option("Heads to draw: 2-0,6-11, layer:2 or all.", "HEADS")] = None,
    lines: Annotated[bool, o.flag("--lines", "Draw weights as lines, for --kind head.")] = False,
    width: Annotated[float, o.option("Width of the picture.", "INCHES", min=2, max=20)] = 3.3,
    window: o.Window = None,
) -> None:
    o.call("plot", context.params)
