"""The screen of a corpus: which head does what over many pairs, the map, and how sure both are."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attnscan.results.ranking import Ranking
from attnscan.views.summary import count_names, label_notes, label_rows
from attnscan.views.terminal.map import map_view
from attnscan.views.terminal.parts import columns, fitted, flowed, named, wrapped

_PATTERN = 18  # columns of the table that stand before its counts
_NAMED = 24  # heads of a pattern, at most


def labels_view(result: Ranking, width: int) -> Iterator[RenderableType]:
    """How many heads follow each pattern over all pairs, and which; the map; in how many resamplings labels stay."""
    names = count_names(result)
    room = max(width - _PATTERN - sum(len(name) + 2 for name in names) - 2, 12)
    grid = columns(("pattern",), names, ("which",), header="bold")
    for row in label_rows(result):
        shown = [Text(head.name + "?" * unsure) for head, unsure in row.heads[:_NAMED]]
        more = len(row.heads) - len(shown)
        shown += [Text(f"and {more} more", style="dim")] if more else []
        which = wrapped(row.why_none, room) if row.why_none else flowed(shown, room)
        grid.add_row(named(row.pattern), *row.counts, Text("\n").join(which))
    yield fitted(grid, width, *reversed(names[1:]))
    for line in label_notes(result):
        yield from wrapped(line, width)
    yield ""
    yield from map_view(result.mapped, width)
