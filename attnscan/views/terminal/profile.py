"""The screens of `profile`: what a model's attention is spent on, a line for every head, and one head in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import AttentionKind, Head
from attnscan.results.profile import OFFSETS, OTHERS, Profile
from attnscan.safe_text import plain
from attnscan.views.terminal.parts import beyond, columns, decimals, fitted, flowed, model_line, number, wrapped

_LEAST = 0.05  # a share below this is not named in a line
_COLUMNS = ("before", "itself", "after", "ident.", "special", "punct.", "own", "other", "same", OTHERS)
"""Of the families of parts, in a table of layers."""
_BAR, _BEFORE_BAR = 30, 23  # columns of a share of 1 beside one head's distances, and of what stands before it
_ACROSS = ("before", "place", "after", "ident.", "special", "punct.", "own", "source", "same", "aligned")
"""Of the families of parts of cross attention, whose places are relative to the query's own place in the source."""
_MEANING = (
    "Shares are of a word's attention, on average over words. offset-2 is {}, same-keys the "
    "mean row of the input's other words. Overlapping parts share the weight. explained: 1 if the sum of the parts "
    "gives each weight exactly, 0 if it gives nothing, by squared weights; even: what even attention alone explains."
)


def profile_view(result: Profile, width: int, heads: Sequence[Head] | None, top: int | None) -> RenderableType:
    """The model by layers and a line a head; one head that is asked for alone, in full."""
    counts = f"  {result.signature.counts}" if result.signature.pairs_read > 1 else ""
    title = model_line(result.signature, counts)
    if heads is not None and len(heads) == 1:
        return Group(title, "", *_in_full(result, heads[0], width), "", *wrapped(_meaning(result), width))
    shown: list[RenderableType] = [title, ""]
    if heads is None:
        shown += [Text("What attention is spent on, layer by layer", style="bold"), _layers(result, width), ""]
    grid = Table.grid(padding=(0, 2, 0, 0))
    for head in result.grid if heads is None else heads:
        name = Text(head.name, style="bold")
        grid.add_row(name, Text("\n").join(_line(result, head, width - 7, top)))
    return Group(*shown, grid, "", *wrapped(_meaning(result), width))


def _is_across(result: Profile) -> bool:
    return result.kind is AttentionKind.CROSS


def _meaning(result: Profile) -> str:
    across = "the source word two before the one at the same place, other-sentence all source words"
    return _MEANING.format(across if _is_across(result) else "the word two places before")


def _line(result: Profile, head: Head, width: int, top: int | None) -> Iterator[Text]:
    """A head's strongest parts, and how much all of them explain."""
    parts = result.strongest(head)
    named = parts[:top] if top is not None else [part for part in parts if part[1] >= _LEAST] or parts[:1]
    entries = [Text.assemble(f"{plain(name)} ", (f"{share:.2f}", "bold")) for name, share in named]
    if np.isfinite(explained := result.fit.explained[head.place]):
        even = result.fit.by_even[head.place]
        entries.append(Text(f"| explained {explained:.2f}, even {even:.2f}", style="dim"))
    yield from flowed(entries or [Text("no attention", style="dim")], width)


def _layers(result: Profile, width: int) -> Table:
    spent, names = result.by_family().mean(1), _ACROSS if _is_across(result) else _COLUMNS
    there = [f for f, name in enumerate(names) if spent[:, f].any() or (name != OTHERS and names is _COLUMNS)]
    grid = columns(("layer",), (*(names[f] for f in there), "explained", "even"), apart=1)
    for layer, row in enumerate(spent):
        known = np.isfinite(result.fit.explained[layer])
        means = (values[layer][known].mean() for values in (result.fit.explained, result.fit.by_even))
        told = map(number, means) if known.any() else ("", "")
        grid.add_row(str(layer), *(number(row[f]) for f in there), *told)
    least_first = sorted(there, key=lambda f: float(spent[:, f].mean()))
    return fitted(grid, width, *(names[f] for f in least_first))


def _in_full(result: Profile, head: Head, width: int) -> Iterator[RenderableType]:
    """All parts of a head with errors, and the curve over distances."""
    fit = result.fit
    shares, errors, error = (values[head.place] for values in (fit.share, fit.se, fit.explained_se))
    error_told = "" if np.isnan(error) else f" ± {error:.2f}"
    explained, even = (number(values[head.place]) for values in (fit.explained, fit.by_even))
    yield Text.assemble((head.name, "bold"), f"  explained {explained}{error_told}, by even attention alone {even}")
    grid = columns(("part",), ("share", "± se"))
    for p in np.argsort(-np.nan_to_num(shares, nan=-1), kind="stable"):
        if shares[p] > 0:
            grid.add_row(plain(result.parts[p]), decimals(shares[p]), decimals(errors[p]))
    yield grid
    yield ""
    across = "By place, in source words behind the one at the same place"
    yield Text(across if _is_across(result) else "By distance, in words of the own sentence", style="bold")
    curve = columns((), ("words", "share", "± se"), ("",))
    for offset in OFFSETS:
        p = result.parts.index(f"offset{offset:+}")
        share, se = float(shares[p]), float(errors[p])
        shown = np.isnan(se) or beyond(share, se)  # of one input there is no error
        bar = Text("█" * round(min(_BAR, width - _BEFORE_BAR) * np.nan_to_num(share) * shown))
        curve.add_row(f"{offset:+}" if offset else "0", decimals(share), decimals(se), bar)
    yield curve
