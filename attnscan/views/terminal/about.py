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
        layers = entry["layers"] or "?"
        heads = entry["heads"] or "?"
        cells = entry | {"heads": f"{layers} × {heads}"}
        shown = (cells[name] for name in ("model", "family", "heads", "state", "where"))
        grid.add_row(*(Text(plain(str(cell))) for cell in shown))
    silent = "does not answer: only the models above and local directories can run"
    hub = "answers: --model can be any id of it" if catalog.hub else silent
    default = Text(plain(f"Without --model: {catalog.default}"))
    return Group(grid, "", default, Text(f"The model hub {hub}"))


def checkpoint_view(checkpoint: Checkpoint) -> RenderableType:
    """The facts, a line each, then the patterns, and the measures of `ablate`."""
    facts = checkpoint.facts
    grid = Grid((facts["layers"], facts["heads"]))
    heads = {
        "masked-LM": "masked_lm_head",
        "next-sentence": "next_sentence_head",
        "classifier": "classifier_head",
    }
    task_heads = ", ".join(name for name, head in heads.items() if facts[head])
    layers = ""
    if "attention_in" in facts:
        layers = f", attention in layers {', '.join(map(str, facts['attention_in']))}"
    longest = "no limit known"
    if facts["longest_input"]:
        longest = counted(facts["longest_input"], "token")
    lines = {
        "family": f"{facts['family']} ({facts['architecture']})",
        "heads": f"{grid} = {len(grid)}{layers}",
        "read by": _READ_BY[facts["read_by"]],
        "template": facts["template"],
        "longest input": longest,
        "segment ids": "used" if facts["segment_ids"] else "none",
        "mask token": facts["mask_token"] or "none",
        "task heads": task_heads or "none trained",
    }
    blocks: list[RenderableType] = [Text(plain(checkpoint.model), style="bold"), ""]
    blocks += [_pairs(lines), ""]
    blocks += [Text("patterns that can be scored", style="bold")]
    blocks += [_pairs(answers(checkpoint.patterns)), ""]
    blocks += [Text("measures of attnscan ablate", style="bold")]
    blocks += [_pairs(answers(checkpoint.measures))]
    return Group(*blocks)


def _pairs(rows: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(named(name) if name in COLORS else name, Text(plain(value)))
    return table
