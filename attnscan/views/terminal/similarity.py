"""The screen of `similar`: groups of heads that attend alike, and the nearest heads of those that are named."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.similarity import Similarity
from attnscan.results.terms import counted
from attnscan.views.palette import letter
from attnscan.views.terminal.parts import color_of, columns, decimals, flowed, model_line, wrapped

_CLOSEST = 10


def similarity_view(similarity: Similarity, width: int, heads: str | None, nearest: int) -> RenderableType:
    """Groups and the closest pairs of heads, or the nearest of the heads that are named."""
    blocks: list[RenderableType] = [model_line(similarity.signature, f"  {similarity.signature.counts}"), ""]
    if heads is None:
        blocks += [*_groups(similarity, width), "", Text("The closest two", style="bold")]
        blocks += [_pairs(similarity, similarity.closest(_CLOSEST))]
    else:
        chosen = [similarity.scores.grid.index(head) for head in similarity.scores.grid.select(heads)]
        pairs = [(head, other) for head in chosen for other in similarity.nearest(head, nearest)]
        blocks += [_pairs(similarity, pairs)]
    note = (
        f"divergence: Jensen-Shannon, in nats, from 0 (the same weights) to 0.693 (no key in common), over "
        f"{counted(similarity.queries, 'query', 'queries')}."
    )
    note += " ?: a label that is not sure; pairs drawn anew would change it." if similarity.unsure.any() else ""
    return Group(*blocks, "", *wrapped(note, width))


def _groups(similarity: Similarity, width: int) -> list[RenderableType]:
    groups = [group for group in similarity.groups if len(group) > 1]
    alone = sum(len(group) == 1 for group in similarity.groups)
    title = f"{counted(len(groups), 'group')} within {similarity.within:g} nats, {counted(alone, 'head')} alone"
    lines: list[RenderableType] = [Text(title, style="bold")]
    for number, group in enumerate(groups, 1):
        entries = [_named(similarity, head) for head in group]
        for i, line in enumerate(flowed(entries, width - 5)):
            lines.append(Text(f"{number:>3}  " if i == 0 else " " * 5, style="dim").append_text(line))
    return lines


def _named(similarity: Similarity, head: int) -> Text:
    """A head's name, and the letter of its label in its colour."""
    label = str(similarity.label[head])
    mark = letter(label) + "?" * bool(similarity.unsure[head])
    return Text(similarity.heads[head].name + " ").append(mark, style=color_of(label))


def _pairs(similarity: Similarity, pairs: list[tuple[int, int]]) -> Table:
    grid = columns(("head", "nearest"), ("divergence", "± se"))
    for head, other in pairs:
        value, error = float(similarity.divergence[head, other]), float(similarity.se[head, other])
        grid.add_row(_named(similarity, head), _named(similarity, other), decimals(value), decimals(error))
    return grid
