"""The screen of `models`: what can run now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.plain import plain

if TYPE_CHECKING:
    from attnscan.catalog import Catalog


def models_view(catalog: Catalog) -> RenderableType:
    """A line for each model that can run now, and what a run without --model takes."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in ("--model", "family", "heads", "state", "where"):
        grid.add_column(name)
    for entry in catalog.entries:
        size = f"{entry.layers or '?'} × {entry.heads or '?'}"
        cells = (entry.model, entry.family, size, entry.state, entry.where)
        grid.add_row(*(Text(plain(cell)) for cell in cells))
    hub = (
        "answers: --model can be any id of it"
        if catalog.hub
        else "does not answer: only the models above, and directories"
    )
    return Group(grid, "", Text(plain(f"Without --model: {catalog.default}")), Text(f"The model hub {hub}"))
