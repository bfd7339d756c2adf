"""The screens of `explain`: one head and its causes, one query's keys and neurons, and many heads in a list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.explanation import Explanations
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.head_explanation import CAUSES, NEURON_MEASURES, HeadExplanation, InBases
from attnscan.results.terms import SHUFFLES, counted
from attnscan.safe_text import plain
from attnscan.views.behaviour import NOT_MEASURED
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import (
    beyond,
    columns,
    decimals,
    fitted,
    model_line,
    named,
    number,
    wrapped,
)

_BAR = 20
_MEANING = " "  # the nameless column that says what a measure is
_SHOWN_KEYS = 12
_BEFORE_NEURONS = 39  # columns of a key, its weight and its logit
_NEURON = len("123 +12.3 ▇▇▇▇ ")
_UP, _DOWN = COLORS["next-word"], COLORS["bag-of-words"]
_SHORT = {"positions_shuffled": "shuffled", "segments_zeroed": "zeroed", "segments_swapped": "swapped"}
_WITH_ERROR = ("positions_shuffled",)  # in the list of many heads, which has room for no more
_BRIEF = (("effective_neurons", 1), ("stability", 2), ("sign_agreement", 2))
_ROTATED = "Queries and keys that are rotated together give the same weights."
_SHUFFLED = {
    AttentionKind.DECODER: "Positions are shuffled among the target's words; special tokens keep theirs.",
    AttentionKind.CROSS: "Positions are shuffled among the source's words; special tokens keep theirs.",
}
_AMONG_ALL = "Positions are shuffled among all words, across both sentences; special tokens keep theirs."
_NOTE = (
    "(In brackets): the nearest pattern of a head without a label. neurons, stable, signs: in the model's own basis, "
    "then the mean in rotated bases; ≈ in their range, which says nothing of the own basis, < below it, > above it. "
    "?: the label changed in more than 5 % of bootstrap resamples. {shuffled} ±: one standard error."
)


def explanation_view(explanations: Explanations, width: int) -> RenderableType:
    """One head in full, what it comes to first; several as a list; if a token was asked about, what they make of it."""
    counts = f"  {explanations.signature.pairs_read:,} pairs" if explanations.signature.pairs_read > 1 else ""
    blocks: list[RenderableType] = [model_line(explanations.signature, counts), ""]
    if len(explanations.heads) == 1:
        blocks += [*wrapped(explanations[explanations.heads[0]].conclusion, width, style="bold"), ""]
    if explanations.query is not None:
        for head in explanations.heads:
            blocks += [*_keys(explanations, head, explanations.query, width), ""]
    if len(explanations.heads) == 1:
        blocks += _one(explanations, explanations[explanations.heads[0]], width)
    elif explanations.query is None:
        blocks += _many(explanations, width)
    reasons = explanations.not_available.items()
    blocks += [Text(plain(f"{name.replace('_', ' ')}: {NOT_MEASURED}: {why}"), style="dim") for name, why in reasons]
    return Group(*blocks)


def _one(explanations: Explanations, head: HeadExplanation, width: int) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"{head.head.name}  ", "bold"), named(head.label, unsure=head.unsure), ("   explained: ", "dim")
    ).append_text(named(head.pattern))
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    grid.add_column("", no_wrap=True)
    grid.add_column("own basis", justify="right", no_wrap=True)
    grid.add_column("rotated bases", no_wrap=True)
    grid.add_column(_MEANING, style="dim", no_wrap=True)
    attention = explanations.attention
    size = "" if attention is None or attention.query is None else f" of {attention.query.shape[-1]}"
    facts = (
        ("effective_neurons", number, size, "separate targets from other keys"),
        ("stability", decimals, "", "overlap of the four strongest"),
        ("sign_agreement", decimals, "", "equal within, opposite across"),
    )
    for name, written, more, meaning in facts:
        measure = head.neurons[name]
        rotated = f"{written(measure.rotated)} ± {written(measure.rotated_sd)}" if measure.sign else ""
        own = f"{written(measure.own)}{more}" if measure.own == measure.own else NOT_MEASURED
        grid.add_row(NEURON_MEASURES[name], own, rotated, meaning)
    yield fitted(grid, width, _MEANING, "rotated bases")
    if head.neurons_conclusion:
        yield from wrapped(f"{_ROTATED} {head.neurons_conclusion}", width)
    yield Text("")
    yield from _causes(head, width)
    if head.causes["positions_shuffled"] == head.causes["positions_shuffled"]:
        shuffled = _SHUFFLED.get(head.head.kind, _AMONG_ALL)
        yield from wrapped(f"{shuffled} The mean of {SHUFFLES} shuffles. ±: one standard error.", width)


def _causes(head: HeadExplanation, width: int) -> Iterator[Text]:
    """The score, chance, and the score again with each thing changed, each with its error.

    Bars show how far they are above chance: 0 at chance, 1 at perfect.
    """
    rows = [("unchanged", head.score, head.se), ("chance", head.chance, np.nan)]
    rows += [(name.replace("_", " "), head.causes[name], head.cause_se[name]) for name in CAUSES]
    longest = max(len(name) for name, _, _ in rows)
    errors = [f"± {decimals(se)}" if se == se else "" for _, _, se in rows]
    wide = max(map(len, errors))
    room = min(_BAR, width - longest - wide - 10)
    for (name, score, se), error in zip(rows, errors, strict=True):
        above = (score - head.chance) / (1 - head.chance) if head.chance < 1 else 0.0
        sure = score > head.chance and (np.isnan(se) or beyond(score - head.chance, se))
        bar = Text(NOT_MEASURED, style="dim") if np.isnan(score) else Text("█" * round(room * above * sure), style=_UP)
        beside = f" {error.ljust(wide)}" if wide else ""
        yield Text(f"{name.ljust(longest)}  {decimals(score).rjust(5)}{beside} ").append_text(bar)


def _many(explanations: Explanations, width: int) -> Iterator[RenderableType]:
    """A row a head: own and rotated values side by side, and what stands between them says how they compare."""
    grid = columns(("head", "pattern"), ("score", "neurons", "stable", "signs", *_SHORT.values()), apart=1)
    for head in explanations.heads:
        row = explanations[head]
        follows = row.label == row.pattern
        mark = named(row.pattern, unsure=row.unsure) if follows else Text(f"({plain(row.pattern)})", style="dim")
        neurons = (_beside(row.neurons[name], brief) for name, brief in _BRIEF)
        causes = (f"{number(row.causes[name])}{_error(row.cause_se[name])}" for name in _WITH_ERROR)
        others = (number(row.causes[name]) for name in _SHORT if name not in _WITH_ERROR)
        grid.add_row(head.name, mark, number(row.score), *neurons, *causes, *others)
    yield fitted(grid, width, "signs", "stable", "swapped", "zeroed", "neurons")
    yield from wrapped(_NOTE.format(shuffled=_SHUFFLED.get(explanations.heads[0].kind, _AMONG_ALL)), width)


def _beside(measure: InBases, places: int) -> str:
    """The own value and that of rotated bases: `11.4<13.2`; nothing for NaN."""
    if np.isnan(measure.own):
        return ""
    places = 0 if measure.own >= 100 else places
    own, rotated = (f"{value:.{places}f}" for value in (measure.own, measure.rotated))
    return f"{own}{measure.sign}{rotated}" if places < 2 else f"{_short(own)}{measure.sign}{_short(rotated)}"


def _error(se: float) -> str:
    return "" if np.isnan(se) else f"±{_short(f'{se:.2f}')}"


def _short(text: str) -> str:
    """A number below 1 without its zero, as in `.09`."""
    return text.removeprefix("0")


def _keys(explanations: Explanations, head: Head, query: int, width: int) -> Iterator[RenderableType]:
    """The keys of one query, by weight, each with its logit and the neurons that carry it."""
    attention = explanations.attention
    assert attention is not None
    weights = attention.rows_of(head, [query])[0, : attention.keys]
    name = plain(attention.tokens[query]).strip()
    yield Text.assemble((f"{head.name}  ", "bold"), (f"{name}", "bold"), (f"  token {query - attention.source}", "dim"))
    products = None if attention.query is None else attention.products(head, query)
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False, width=width)
    for title, kind in (("key", "left"), ("weight", "right"), ("q·k/√d", "right"), ("neurons", "left")):
        grid.add_column(title, justify=kind, no_wrap=True, ratio=1 if title == "neurons" else None)  # type: ignore[arg-type]
    shown = (width - _BEFORE_NEURONS) // _NEURON
    most = 0.0 if products is None else float(np.abs(products).max())
    for key in np.argsort(-weights, kind="stable")[:_SHOWN_KEYS]:
        label = Text.assemble((f"{key:>3} ", "dim"), plain(attention.tokens[key]).strip()[:14] or "␣")
        if products is None:
            grid.add_row(label, decimals(float(weights[key])), NOT_MEASURED, "")
        else:
            row = products[key]
            grid.add_row(label, decimals(float(weights[key])), f"{row.sum():.2f}", _neurons(row, most, shown))
    yield grid
    if len(weights) > _SHOWN_KEYS:
        yield Text(f"and {counted(len(weights) - _SHOWN_KEYS, 'weaker key')}; --csv lists all", style="dim")


def _neurons(products: NDArray[np.float32], most: float, count: int) -> Text:
    """The strongest neurons of one key, each with a bar that shows sign and size."""
    line = Text()
    for neuron in np.argsort(-np.abs(products), kind="stable")[:count]:
        value = float(products[neuron])
        bar = "▇" * max(1, round(4 * abs(value) / most)) if most else ""
        line.append(f"{neuron:>3} ", "dim").append(f"{value:+.1f}", _UP if value > 0 else _DOWN)
        line.append(f" {bar:<4} ", _UP if value > 0 else _DOWN)
    return line
