"""The screens of `explain`: one head and its causes, one query's keys and neurons, and many heads in a list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.explanation import CAUSES, NEURON_MEASURES, Explanations, HeadExplanation, InBases
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.terms import SHUFFLES, counted
from attnscan.safe_text import plain
from attnscan.views.behaviour import NOT_MEASURED
from attnscan.views.palette import COLORS
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import beyond, decimals, model_line, named, number, wrapped

_BAR = 20
_SHOWN_KEYS = 12
_BEFORE_NEURONS = 39  # columns of a key, its weight and its logit
_NEURON = len("123 +12.3 ▇▇▇▇ ")
_UP, _DOWN = COLORS["next-word"], COLORS["bag-of-words"]
_MEANINGS = {
    "effective_neurons": "separate targets from other keys",
    "stability": "overlap of the four strongest",
    "sign_agreement": "equal within, opposite across",
}
_SHUFFLED_AMONG = {AttentionKind.DECODER: "the target's words", AttentionKind.CROSS: "the source's words"}
_NOTE = (
    "(In brackets): the nearest pattern of a head without a label. neurons, stable, signs: in the model's own basis, "
    "then the mean in rotated bases; ≈ in their range, which says nothing of the own basis, < below it, > above it. "
    "?: the label changed in more than 5 % of bootstrap resamples. {shuffled} ±: one standard error."
)


def explanation_view(explanations: Explanations, width: int) -> RenderableType:
    """One head in full, what it comes to first; several as a list; if a token was asked about, what they make of it."""
    counts = f"  {explanations.signature.pairs_read:,} pairs" if explanations.signature.pairs_read > 1 else ""
    blocks: list[RenderableType] = [model_line(explanations.signature, counts), ""]
    single = explanations[explanations.heads[0]] if len(explanations.heads) == 1 else None
    if single is not None:
        blocks += [*wrapped(single.conclusion, width, style="bold"), ""]
    if explanations.query is not None:
        for head in explanations.heads:
            blocks += [*_keys(explanations, head, explanations.query, width), ""]
    if single is not None:
        blocks += _one(explanations, single, width)
    elif explanations.query is None:
        blocks += _many(explanations, width)
    for name, why in explanations.not_available.items():
        blocks.append(Text(plain(f"{name.replace('_', ' ')}: {NOT_MEASURED}: {why}"), style="dim"))
    return Group(*blocks)


def _shuffled(kind: AttentionKind) -> str:
    among = _SHUFFLED_AMONG.get(kind, "all words, across both sentences")
    return f"Positions are shuffled among {among}; special tokens keep theirs."


def _one(explanations: Explanations, head: HeadExplanation, width: int) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"{head.head.name}  ", "bold"), named(head.label, unsure=head.unsure), ("   explained: ", "dim")
    ).append_text(named(head.pattern))
    attention, rows = explanations.attention, []
    for name, measure in head.neurons.items():
        written = number if name == "effective_neurons" else decimals
        own = written(measure.own) or NOT_MEASURED
        if name == "effective_neurons" and measure.own == measure.own and attention and attention.query is not None:
            own += f" of {attention.query.shape[-1]}"
        rotated = f"{written(measure.rotated)} ± {written(measure.rotated_sd)}" if measure.sign else ""
        rows.append([NEURON_MEASURES[name], own, rotated, Text(_MEANINGS[name], style="dim")])
    columns = Column(""), Column("own basis", ">"), Column("rotated bases", "", 1), Column("", "", 2)
    yield Table(columns, rows).screen(width)
    if said := head.neurons_conclusion:
        yield from wrapped(f"Queries and keys that are rotated together give the same weights. {said}", width)
    yield Text("")
    yield from _causes(head, width)
    if not np.isnan(head.causes["positions_shuffled"]):
        note = f"{_shuffled(head.head.kind)} The mean of {SHUFFLES} shuffles. ±: one standard error."
        yield from wrapped(note, width)


def _causes(head: HeadExplanation, width: int) -> Iterator[Text]:
    """The score, chance, and the score again with each thing changed, each with its error.

    Bars show how far they are above chance: 0 at chance, 1 at perfect.
    """
    rows = [("unchanged", head.score, head.se), ("chance", head.chance, np.nan)]
    rows += [(name.replace("_", " "), head.causes[name], head.cause_se[name]) for name in CAUSES]
    errors = ["" if np.isnan(se) else f" ± {decimals(se)}" for _, _, se in rows]
    wide, longest = max(map(len, errors)), max(len(name) for name, _, _ in rows)
    room = min(_BAR, width - longest - wide - 9)
    for (name, score, se), error in zip(rows, errors, strict=True):
        line = Text(f"{name.ljust(longest)}  {decimals(score).rjust(5)}{error.ljust(wide)} ")
        if np.isnan(score):
            line.append(NOT_MEASURED, "dim")
        elif score > head.chance and (np.isnan(se) or beyond(score - head.chance, se)):
            line.append("█" * round(room * (score - head.chance) / (1 - head.chance)), _UP)
        yield line


def _many(explanations: Explanations, width: int) -> Iterator[RenderableType]:
    """A row a head: own and rotated values side by side, and what stands between them says how they compare."""
    rows = []
    for head in explanations.heads:
        row = explanations[head]
        follows = row.label == row.pattern
        mark = named(row.pattern, unsure=row.unsure) if follows else Text(f"({plain(row.pattern)})", style="dim")
        effective, stable, signs = row.neurons.values()
        neurons = _beside(effective, 0 if effective.own >= 100 else 1), _beside(stable, 2), _beside(signs, 2)
        shuffled, zeroed, swapped = (number(value) for value in row.causes.values())
        se = row.cause_se["positions_shuffled"]
        shuffled += "" if np.isnan(se) else f"±{_short(f'{se:.2f}')}"
        rows.append([head.name, mark, number(row.score), *neurons, shuffled, zeroed, swapped])
    drops = {"score": 0, "neurons": 1, "stable": 4, "signs": 5, "shuffled": 0, "zeroed": 2, "swapped": 3}
    columns = [Column("head"), Column("pattern"), *(Column(name, ">", drop) for name, drop in drops.items())]
    yield Table(columns, rows).screen(width, apart=1)
    yield from wrapped(_NOTE.format(shuffled=_shuffled(explanations.heads[0].kind)), width)


def _beside(measure: InBases, places: int) -> str:
    """The own value and that of rotated bases: `11.4<13.2`; nothing for NaN."""
    if np.isnan(measure.own):
        return ""
    own, rotated = (f"{value:.{places}f}" for value in (measure.own, measure.rotated))
    return f"{own}{measure.sign}{rotated}" if places < 2 else f"{_short(own)}{measure.sign}{_short(rotated)}"


def _short(text: str) -> str:
    """A number below 1 without its zero, as in `.09`."""
    return text.removeprefix("0")


def _keys(explanations: Explanations, head: Head, query: int, width: int) -> Iterator[RenderableType]:
    """The keys of one query, by weight, each with its logit and the neurons that carry it."""
    attention = explanations.attention
    assert attention is not None
    weights = attention.rows_of(head, [query])[0, : attention.keys]
    name = plain(attention.tokens[query]).strip()
    yield Text.assemble((f"{head.name}  {name}", "bold"), (f"  token {query - attention.source}", "dim"))
    products = None if attention.query is None else attention.products(head, query)
    rows = []
    for key in np.argsort(-weights, kind="stable")[:_SHOWN_KEYS]:
        label = Text.assemble((f"{key:>3} ", "dim"), plain(attention.tokens[key]).strip()[:14] or "␣")
        logit, neurons = NOT_MEASURED, Text()
        if products is not None:
            row, most = products[key], float(np.abs(products).max())
            logit = f"{row.sum():.2f}"
            for neuron in np.argsort(-np.abs(row), kind="stable")[: (width - _BEFORE_NEURONS) // _NEURON]:
                style = _UP if row[neuron] > 0 else _DOWN
                bar = "▇" * max(1, round(4 * abs(float(row[neuron])) / most)) if most else ""
                neurons.append(f"{neuron:>3} ", "dim").append(f"{row[neuron]:+.1f} {bar:<4} ", style)
        rows.append([label, weights[key], logit, neurons])
    columns = Column("key"), Column("weight", ">.3f"), Column("q·k/√d", ">"), Column("neurons")
    yield Table(columns, rows).screen(width)
    if len(weights) > _SHOWN_KEYS:
        yield Text(f"and {counted(len(weights) - _SHOWN_KEYS, 'weaker key')}; --csv lists all", style="dim")
