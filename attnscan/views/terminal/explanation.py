"""The screens of `explain`: one head and its causes, one query's keys and neurons, and many heads in a list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.explanation import CAUSES, Explanations, HeadExplanation
from attnscan.results.heads import Head, head_name
from attnscan.safe_text import plain
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import columns, decimals, model_line, named, number, wrapped

_BAR = 20
_SHOWN_KEYS = 12
_BEFORE_NEURONS = 39  # columns of a key, its weight and its logit
_NEURON = len("123 +12.3 ▇▇▇▇ ")
_UP, _DOWN = COLORS["next-word"], COLORS["bag-of-words"]
_SHORT = {"positions_shuffled": "shuffled", "segments_zeroed": "zeroed", "segments_swapped": "swapped"}


def explanation_view(found: Explanations, width: int, query: int | None = None) -> RenderableType:
    """One head in full, several as a list; with a query, what they make of its keys."""
    counts = f"  {found.signature.pairs_read:,} pairs" if found.signature.pairs_read > 1 else ""
    blocks: list[RenderableType] = [model_line(found.signature, counts), ""]
    if query is not None:
        for head in found.heads:
            blocks += [*_keys(found, head, query, width), ""]
    if len(found.heads) == 1:
        blocks += _one(found, found[found.heads[0]], width)
    elif query is None:
        blocks += [_many(found)]
    reasons = found.not_available.items()
    blocks += [Text(plain(f"{name.replace('_', ' ')}: n/a, {why}"), style="dim") for name, why in reasons]
    return Group(*blocks)


def _one(found: Explanations, head: HeadExplanation, width: int) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"{head_name(head.head)}  ", "bold"), named(head.label), ("   explained: ", "dim")
    ).append_text(named(head.pattern))
    grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="dim")
    size = "" if found.attention is None or found.attention.query is None else f" of {found.attention.query.shape[-1]}"
    facts = (
        ("effective neurons", f"{number(head.effective_neurons)}{size}", "that tell its targets from other keys"),
        ("stability", decimals(head.stability), "overlap of two queries' strongest four"),
        ("sign agreement", decimals(head.sign_agreement), "strongest agree inside, differ across"),
    )
    for name, value, meaning in facts:
        grid.add_row(name, value if value[:1].isdigit() else "n/a", meaning)
    yield grid
    yield Text("")
    yield from _causes(head)
    yield Text("")
    yield from wrapped(head.conclusion, width, style="bold")


def _causes(head: HeadExplanation) -> Iterator[Text]:
    """The score, chance, and the score again with each thing changed, as bars."""
    rows = [("as it is", head.score), ("by chance", head.chance)]
    rows += [(name.replace("_", " "), head.causes[name]) for name in CAUSES]
    longest = max(len(name) for name, _ in rows)
    for name, score in rows:
        bar = Text("n/a", style="dim") if np.isnan(score) else Text("█" * round(_BAR * score), style=_UP)
        yield Text.assemble(f"{name.ljust(longest)}  {decimals(score).rjust(5)} ").append_text(bar)


def _many(found: Explanations) -> RenderableType:
    grid = columns(("head", "pattern"), ("score", "neurons", "stable", "signs", *_SHORT.values()), apart=1)
    for head in found.heads:
        row = found[head]
        mark = named(row.pattern) if row.label == row.pattern else Text(f"({plain(row.pattern)})", style="dim")
        numbers = (row.effective_neurons, row.stability, row.sign_agreement, *(row.causes[name] for name in _SHORT))
        grid.add_row(head_name(head), mark, *(number(each) for each in (row.score, *numbers)))
    note = "(In brackets): the pattern nearest to a head without a label."
    return Group(grid, Text(note, style="dim"))


def _keys(found: Explanations, head: Head, query: int, width: int) -> Iterator[RenderableType]:
    """The keys of one query, by weight, each with its logit and the neurons that carry it."""
    attention = found.attention
    assert attention is not None
    weights = attention.weights[(*head, query)]
    name = plain(attention.tokens[query]).strip()
    yield Text.assemble((f"{head_name(head)}  ", "bold"), (f"{name}", "bold"), (f"  token {query}", "dim"))
    products = None if attention.query is None else attention.products(*head, query)
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False, width=width)
    for title, kind in (("key", "left"), ("weight", "right"), ("q·k/√d", "right"), ("neurons", "left")):
        grid.add_column(title, justify=kind, no_wrap=True, ratio=1 if title == "neurons" else None)  # type: ignore[arg-type]
    shown = max(1, (width - _BEFORE_NEURONS) // _NEURON)
    most = 0.0 if products is None else float(np.abs(products).max())
    for key in np.argsort(-weights, kind="stable")[:_SHOWN_KEYS]:
        label = Text.assemble((f"{key:>3} ", "dim"), plain(attention.tokens[key]).strip()[:14] or "␣")
        if products is None:
            grid.add_row(label, decimals(float(weights[key])), "n/a", "")
        else:
            row = products[key]
            grid.add_row(label, decimals(float(weights[key])), f"{row.sum():.2f}", _neurons(row, most, shown))
    yield grid
    if len(weights) > _SHOWN_KEYS:
        yield Text(f"and {len(weights) - _SHOWN_KEYS} weaker keys; --csv lists all", style="dim")


def _neurons(products: NDArray[np.float32], most: float, count: int) -> Text:
    """The strongest neurons of one key, each with a bar that shows sign and size."""
    line = Text()
    for neuron in np.argsort(-np.abs(products), kind="stable")[:count]:
        value = float(products[neuron])
        bar = "▇" * max(1, round(4 * abs(value) / most)) if most else ""
        line.append(f"{neuron:>3} ", "dim").append(f"{value:+.1f}", _UP if value > 0 else _DOWN)
        line.append(f" {bar:<4} ", _UP if value > 0 else _DOWN)
    return line
