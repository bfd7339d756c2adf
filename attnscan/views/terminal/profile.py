"""The screens of `profile`: where every head's attention goes, a line a head, and one head in full."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from attnscan.results.heads import Profile
from attnscan.results.scores import SPECIAL_CLASSES
from attnscan.results.terms import AttentionKind, Head
from attnscan.text import plain
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import flowed, model_line, wrapped

_LEAST = 0.05  # a share below this is not named in a line
_BAR = 20  # columns of a share of 1
_MEANING = (
    "Shares are of a word's attention, on average over words. Every key is of one class, the first that fits: "
    "next and previous are neighbours, next-2-3 the words two and three places ahead, later and earlier the words "
    "beyond eight places, elsewhere the rest of {}. Shares of words sum to 1{}; start, middle and end are shares of "
    "all attention on special tokens."
)


def profile_view(result: Profile, width: int, heads: Sequence[Head] | None, top: int | None) -> RenderableType:
    """A line a head; one head that is asked for alone, in full."""
    signature = result.signature
    title = model_line(signature, f"  {signature.counts}" if signature.pairs_read > 1 else "")
    rest = "the source" if result.grid.kind is AttentionKind.CROSS else "the other sentence"
    special = " with special tokens removed" if signature.reading.among_words else " together with special tokens"
    meaning = wrapped(_MEANING.format(rest, special), width)
    if heads is not None and len(heads) == 1:
        return Group(title, "", _in_full(result, heads[0]).screen(width), "", *meaning)
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    for head in result.grid if heads is None else heads:
        grid.add_row(Text(head.name, style="bold"), Text("\n").join(flowed(_shares(result, head, top), width - 7)))
    return Group(title, "", grid, "", *meaning)


def _shares(result: Profile, head: Head, top: int | None) -> list[Text]:
    """A head's largest shares, and how much of all its attention is on special tokens."""
    classes = result.strongest(head)
    named = classes[:top] if top is not None else [entry for entry in classes if entry[1] >= _LEAST] or classes[:1]
    entries = [Text.assemble(f"{plain(name)} ", (f"{share:.2f}", "bold")) for name, share in named]
    if np.isfinite(special := result.share[head.place][-len(SPECIAL_CLASSES) :].sum()):
        entries.append(Text(f"| special tokens {special:.2f}", style="dim"))
    return entries or [Text("no attention", style="dim")]


def _in_full(result: Profile, head: Head) -> Table:
    """All classes of a head with errors, beside even attention and the average head."""
    frame = result.to_frame(head)[["class", "share", "se", "chance", "average"]]
    rows = [[*row, "" if np.isnan(row[1]) else "█" * round(_BAR * row[1])] for row in frame.itertuples(index=False)]
    columns = [Column("share", ">.3f"), Column("± se", ">.3f"), Column("even", ">.3f", 1), Column("average", ">.3f", 2)]
    return Table([Column(head.name), *columns, Column("")], rows)
