"""The screens of `profile`: where every head's attention goes, a line a head, and one head in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import AttentionKind, Head
from attnscan.results.profile import SPECIAL_CLASSES, Profile
from attnscan.safe_text import plain
from attnscan.views.terminal.parts import columns, decimals, fitted, flowed, model_line, wrapped

_LEAST = 0.05  # a share below this is not named in a line
_BAR = 20  # columns of a share of 1
_MEANING = (
    "Shares are of a word's attention, on average over words. Every key is of one class, the first that fits: "
    "next and previous are neighbours, next-2-3 the words two and three places ahead, later and earlier the words "
    "beyond eight places, elsewhere the rest of {}. Shares of words sum to 1{}."
)


def profile_view(result: Profile, width: int, heads: Sequence[Head] | None, top: int | None) -> RenderableType:
    """A line a head; one head that is asked for alone, in full."""
    counts = f"  {result.signature.counts}" if result.signature.pairs_read > 1 else ""
    title = model_line(result.signature, counts)
    if heads is not None and len(heads) == 1:
        return Group(title, "", _in_full(result, heads[0], width), "", *wrapped(_meaning(result), width))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for head in result.grid if heads is None else heads:
        grid.add_row(Text(head.name, style="bold"), Text("\n").join(_line(result, head, width - 7, top)))
    return Group(title, "", grid, "", *wrapped(_meaning(result), width))


def _meaning(result: Profile) -> str:
    rest = "the source" if result.kind is AttentionKind.CROSS else "the other sentence"
    among = " with special tokens removed" if result.signature.reading.among_words else " together with special tokens"
    return _MEANING.format(rest, among)


def _line(result: Profile, head: Head, width: int, top: int | None) -> Iterator[Text]:
    """A head's largest shares, and how much of all its attention is on special tokens."""
    classes = result.strongest(head)
    named = classes[:top] if top is not None else [entry for entry in classes if entry[1] >= _LEAST] or classes[:1]
    entries = [Text.assemble(f"{plain(name)} ", (f"{share:.2f}", "bold")) for name, share in named]
    if np.isfinite(special := result.special(head)):
        entries.append(Text(f"| special tokens {special:.2f}", style="dim"))
    yield from flowed(entries or [Text("no attention", style="dim")], width)


def _in_full(result: Profile, head: Head, width: int) -> Table:
    """All classes of a head with errors, beside even attention and the average head."""
    grid = columns((head.name,), ("share", "± se", "even", "average"), ("",))
    average = result.average
    for place, name in enumerate(result.classes):
        if name == SPECIAL_CLASSES[0]:
            grid.add_row(Text("of all attention", style="dim"))
        at = (*head.place, place)
        numbers = (result.share[at], result.se[at], result.chance[at], average[place])
        bar = "█" * round(_BAR * float(np.nan_to_num(result.share[at])))
        grid.add_row(plain(name), *(decimals(value) for value in numbers), bar)
    return fitted(grid, width, "average", "even")
