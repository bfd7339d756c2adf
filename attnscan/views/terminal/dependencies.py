"""The screen of `predictive`: which words help to predict which."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.dependencies import Dependencies
from attnscan.safe_text import plain
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import flowed, model_line

_SHADES = " ░▒▓█"
_SHADE_WIDTH = 3
_HELPER_WIDTH = 19


def dependencies_view(result: Dependencies, width: int) -> RenderableType:
    """Which words help to predict which: a row for each word, shaded where it is helped, its best helpers beside it."""
    measured, target = ~np.isnan(result.help.matrix), result.help.target
    queries, keys = np.flatnonzero(measured.any(axis=1)), np.flatnonzero(measured.any(axis=0))
    label = min(14, max(len(plain(unit)) for unit in result.units))
    left = 4 + label
    shaded = left + _SHADE_WIDTH * len(keys) + _HELPER_WIDTH <= width
    if shaded:
        left += _SHADE_WIDTH * len(keys)
    lines = [Text("".join(str(key).rjust(_SHADE_WIDTH) for key in keys).rjust(left), style="dim")] if shaded else []
    for query in queries:
        line = Text.assemble((f"{query:>3} ", "dim"), plain(result.units[query]).strip()[:label].ljust(label))
        if shaded:
            cells = (_shade(float(target[query, key]), known=bool(measured[query, key])) for key in keys)
            line.append_text(Text("").join(cells))
        lines.append(line.append("  ").append_text(_helpers(result, int(query), width - left - 2)))
    unit = "nats" if result.help.measure == "cpmi" else "distance"
    return Group(
        model_line(result.signature),
        "",
        Text(f"How much each other word helps to predict the word of the row, in {unit}", style="bold"),
        *lines,
        Text(result.help.description, style="dim"),
    )


def _shade(share: float, known: bool) -> Text:
    """A cell of the matrix. Shape: `share` of the row's best, in [0, 1]."""
    if not known:
        return Text(" " * _SHADE_WIDTH)
    level = int(np.ceil(share * (len(_SHADES) - 1)))
    return Text("  ·", style="dim") if level == 0 else Text(f" {_SHADES[level] * 2}", style=COLORS["next-word"])


def _helpers(result: Dependencies, query: int, width: int) -> Text:
    """The best helpers of a word, as many as fit."""
    if not result.help.target[query].any():
        return Text("nothing helps enough"[:width], style="dim")
    row = result.help.matrix[query]
    best = [int(key) for key in np.argsort(-np.nan_to_num(row, nan=-np.inf))[:5] if row[key] > 0]
    entries = [Text(f"{plain(result.units[key]).strip()}#{key} {row[key]:.2f}") for key in best]
    first = next(flowed(entries, width))
    first.truncate(width, overflow="ellipsis")
    return first
