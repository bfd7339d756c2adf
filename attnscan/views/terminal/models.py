"""The screen of `models`: what can run now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.checkpoint import answers
from attnscan.results.terms import Grid
from attnscan.text import counted, plain
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import named

if TYPE_CHECKING:
    from attnscan.model.sources import Catalog
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
        entry = {**entry, "size": f"{entry['layers'] or '?'} × {entry['heads'] or '?'}"}
        grid.add_row(*(Text(plain(str(entry[name]))) for name in ("model", "family", "size", "state", "where")))
    no = "does not answer: only the models above and local directories can run"
    hub = "answers: --model can be any id of it" if catalog.hub else no
    return Group(grid, "", Text(plain(f"Without --model: {catalog.default}")), Text(f"The model hub {hub}"))


def checkpoint_view(checkpoint: Checkpoint) -> RenderableType:
    """The facts, a line each, then the patterns, and the measures of `ablate`."""
    of, grid = checkpoint.facts, Grid((checkpoint.facts["layers"], checkpoint.facts["heads"]))
    heads = {"masked-LM": "masked_lm_head", "next-sentence": "next_sentence_head", "classifier": "classifier_head"}
    where = f", attention in layers {', '.join(map(str, of['attention_in']))}" if "attention_in" in of else ""
    facts = {
        "family": f"{of['family']} ({of['architecture']})",
        "heads": f"{grid} = {len(grid)}{where}",
        "read by": _READ_BY[of["read_by"]],
        "template": of["template"],
        "longest input": counted(of["longest_input"], "token") if of["longest_input"] else "no limit known",
        "segment ids": "used" if of["segment_ids"] else "none",
        "mask token": of["mask_token"] or "none",
        "task heads": ", ".join(name for name, head in heads.items() if of[head]) or "none trained",
    }
    blocks: list[RenderableType] = [Text(plain(checkpoint.model), style="bold"), "", _pairs(facts), ""]
    blocks += [Text("patterns that can be scored", style="bold"), _pairs(answers(checkpoint.patterns)), ""]
    blocks += [Text("measures of attnscan ablate", style="bold"), _pairs(answers(checkpoint.measures))]
    return Group(*blocks)


def _pairs(rows: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(named(name) if name in COLORS else name, Text(plain(value)))
    return table
