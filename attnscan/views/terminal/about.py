"""The screens of `models`: what can run, and what one checkpoint is."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.model.sources import Catalog
from attnscan.results.card import Checkpoint, answers
from attnscan.results.grid import Grid
from attnscan.text import counted, plain
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import named

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
        cells = entry | {"heads": f"{entry['layers'] or '?'} × {entry['heads'] or '?'}"}
        grid.add_row(
            *(
                Text(plain(str(cells[name])))
                for name in ("model", "family", "heads", "state", "where")
            )
        )
    silent = "does not answer: only the models above and local directories can run"
    hub = "answers: --model can be any id of it" if catalog.hub else silent
    return Group(
        grid, "", Text(plain(f"Without --model: {catalog.default}")), Text(f"The model hub {hub}")
    )


def checkpoint_view(checkpoint: Checkpoint) -> RenderableType:
    """The facts, a line each, then the patterns, and the measures of `ablate`."""
    facts, grid = checkpoint.facts, Grid((checkpoint.facts["layers"], checkpoint.facts["heads"]))
    heads = {
        "masked-LM": "masked_lm_head",
        "next-sentence": "next_sentence_head",
        "classifier": "classifier_head",
    }
    layers = (
        f", attention in layers {', '.join(map(str, facts['attention_in']))}"
        if "attention_in" in facts
        else ""
    )
    lines = {
        "family": f"{facts['family']} ({facts['architecture']})",
        "heads": f"{grid} = {len(grid)}{layers}",
        "read by": _READ_BY[facts["read_by"]],
        "template": facts["template"],
        "longest input": counted(facts["longest_input"], "token")
        if facts["longest_input"]
        else "no limit known",
        "segment ids": "used" if facts["segment_ids"] else "none",
        "mask token": facts["mask_token"] or "none",
        "task heads": ", ".join(name for name, head in heads.items() if facts[head])
        or "none trained",
    }
    blocks: list[RenderableType] = [
        Text(plain(checkpoint.model), style="bold"),
        "",
        _pairs(lines),
        "",
    ]
    blocks += [
        Text("patterns that can be scored", style="bold"),
        _pairs(answers(checkpoint.patterns)),
        "",
    ]
    return Group(
        *blocks,
        Text("measures of attnscan ablate", style="bold"),
        _pairs(answers(checkpoint.measures)),
    )


def _pairs(rows: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(named(name) if name in COLORS else name, Text(plain(value)))
    return table
