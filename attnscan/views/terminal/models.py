"""The screen of `models`: what can run now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import Grid
from attnscan.results.terms import MEASURES, counted
from attnscan.safe_text import plain
from attnscan.views.terminal.parts import named

if TYPE_CHECKING:
    from attnscan.model.catalog import Catalog
    from attnscan.results.checkpoint import Checkpoint

_READ_BY = {
    "tap": "an attention function in place of its own, layer by layer",
    "watch": "its own eager attention, watched layer by layer",
}


def models_view(catalog: Catalog) -> RenderableType:
    """A line for each model that can run now, and what a run without --model takes."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in ("--model", "family", "heads", "state", "where"):
        grid.add_column(name, overflow="fold")
    for entry in catalog.entries:
        size = f"{entry.layers or '?'} × {entry.heads or '?'}"
        cells = (entry.model, entry.family, size, entry.state, entry.where)
        grid.add_row(*(Text(plain(cell)) for cell in cells))
    hub = (
        "answers: --model can be any id of it"
        if catalog.hub
        else "does not answer: only the models above and local directories can run"
    )
    return Group(grid, "", Text(plain(f"Without --model: {catalog.default}")), Text(f"The model hub {hub}"))


def checkpoint_view(checkpoint: Checkpoint) -> RenderableType:
    """The facts, a line each, then the patterns, and the measures of `ablate`."""
    c, grid = checkpoint, Grid((checkpoint.layers, checkpoint.heads))
    heads = {"masked-LM": c.masked_lm_head, "next-sentence": c.next_sentence_head, "classifier": c.classifier_head}
    where = f", attention in layers {', '.join(map(str, c.attention_in))}" if c.attention_in else ""
    facts = {
        "family": f"{c.family} ({c.architecture})",
        "heads": f"{grid} = {len(grid)}{where}",
        "read by": _READ_BY[c.read_by],
        "template": c.template,
        "longest input": counted(c.longest_input, "token") if c.longest_input else "no limit known",
        "positions": c.positions or "cannot be told",
        "segment ids": "used" if c.segment_ids else "none",
        "mask token": c.mask_token or "none",
        "saved as": c.saved_as or "cannot be told",
        "task heads": ", ".join(name for name, there in heads.items() if there) or "none trained",
    }
    return Group(
        Text(plain(c.model), style="bold"),
        "",
        _grid((Text(name), Text(plain(value))) for name, value in facts.items()),
        "",
        Text("patterns that can be scored", style="bold"),
        _grid((named(pattern), _allowed(c.allows(pattern))) for pattern in c.patterns),
        "",
        Text("measures of attnscan ablate", style="bold"),
        _grid((Text(measure), _allowed(c.allows(measure))) for measure in MEASURES),
    )


def _allowed(answer: str) -> Text:
    return Text(plain(answer), style="" if answer == "yes" else "dim")


def _grid(rows: Iterable[tuple[Text, Text]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for row in rows:
        grid.add_row(*row)
    return grid
