"""The screens of `explain`: one head and its causes, one query's keys and neurons, many heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.explanation import CAUSES, NEURONS, SHUFFLED, SHUFFLES, Explanations, sign
from attnscan.results.grid import Head
from attnscan.results.lazy import pd
from attnscan.text import counted, plain
from attnscan.views.behaviour import NOT_MEASURED
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import (
    Column,
    marked,
    model_line,
    named,
    number,
    table_of,
    wrapped,
)

_SHOWN_KEYS = 12
_SHOWN_NEURONS = 4
_SIGNS = (
    "≈: rotated bases give the same, so it says nothing of the model's own neurons. <, >: they "
    "give more, or less."
)
_MANY = (
    "(In brackets): the nearest pattern, which the head does not follow. neurons, stable, signs: "
    f"in the own basis. {_SIGNS}"
)
_SHUFFLED = (
    f"Positions: the mean of {SHUFFLES} shuffles of words; special tokens keep theirs. ±: one "
    "standard error."
)


def explanation_view(explanations: Explanations, width: int) -> RenderableType:
    """One head in full, what it comes to first; several as a list.

    If a token was asked about, what they make of it.
    """
    signature = explanations.signature
    heads = explanations.heads
    query = explanations.query
    counts = f"  {signature.pairs_read:,} pairs" if signature.pairs_read > 1 else ""
    blocks: list[RenderableType] = [model_line(signature, counts), ""]
    if len(heads) == 1:
        blocks += [*wrapped(explanations[heads[0]]["conclusion"], width, style="bold"), ""]
    if query is not None:
        for head in heads:
            blocks += [*_keys(explanations, head, query, width), ""]
    if len(heads) == 1:
        blocks += _one(explanations, width)
    elif query is None:
        blocks += _many(explanations, width)
    missing = explanations.not_available
    if SHUFFLED not in missing:
        blocks += wrapped(_SHUFFLED, width)
    for name, reason in missing.items():
        note = f"{name.replace('_', ' ')}: {NOT_MEASURED}: {reason}"
        blocks.append(Text(plain(note), style="dim"))
    return Group(*blocks)


def _one(explanations: Explanations, width: int) -> Iterator[RenderableType]:
    """One head's neurons, and its score beside chance and with each thing changed.

    Bars are what is above chance.
    """
    (head,) = explanations.heads
    row = explanations[head]
    does = marked(explanations.labels, head)
    explained = named(row["pattern"])
    yield Text.assemble((f"{head.name}  ", "bold"), does, ("   explained: ", "dim"), explained)
    yield _neurons(row, width)
    yield from wrapped(
        f"Queries and keys that are rotated together give the same weights. {_SIGNS}", width
    )
    yield ""
    yield _causes(row, width)


def _neurons(row: pd.Series[Any], width: int) -> Table:
    """How few neurons make a head's weights, in the model's own basis and in rotated ones."""
    rows: list[list[Any]] = []
    for name in NEURONS:
        decimals = 2 if name == NEURONS[0] else 3
        value = number(row[name], decimals)
        mean = number(row[f"{name}_rotated"], decimals)
        sd = number(row[f"{name}_rotated_sd"], decimals)
        between = sign(row, name)
        rotated = f"{between} {mean} ± {sd}" if between else ""
        rows.append([name.replace("_", " "), value or NOT_MEASURED, rotated])
    columns = [Column(""), Column("own basis", ">"), Column("rotated bases", "", 1)]
    return table_of(columns, rows, width)


def _causes(row: pd.Series[Any], width: int) -> Table:
    """A head's score as it is, by chance, and with each thing changed."""
    chance = row["chance"]
    scores = {"unchanged": (row["score"], row["se"]), "chance": (chance, np.nan)}
    scores |= {name.replace("_", " "): (row[name], row[f"{name}_se"]) for name in CAUSES}
    rows = []
    for name, (score, se) in scores.items():
        error = "" if np.isnan(se) else f" ± {se:.3f}"
        # a bar of what may be chance would look like a find
        is_sure = score > chance and not score - chance <= 2 * se
        above = (score - chance) / (1 - chance) if is_sure else 0.0
        text = (number(score, 3) or NOT_MEASURED) + error
        rows.append([name, text, (above, COLORS["next-word"])])
    return table_of([Column(""), Column("score"), Column("above chance", "bar")], rows, width)


def _many(explanations: Explanations, width: int) -> Iterator[RenderableType]:
    """A row a head: own and rotated values side by side, and between them how they compare."""
    rows = []
    for head in explanations.heads:
        row = explanations[head]
        pattern = Text(f"({plain(row['pattern'])})", style="dim")
        if explanations.labels.among_words[head.place] == row["pattern"]:
            pattern = marked(explanations.labels, head)
        shuffled, *segments = (number(row[name]) for name in CAUSES)
        se = row[f"{SHUFFLED}_se"]
        if not np.isnan(se):
            shuffled += f"±{se:.2f}".replace("±0", "±")
        neurons = (_beside(row, name) for name in NEURONS)
        rows.append([head.name, pattern, number(row["score"]), *neurons, shuffled, *segments])
    drops = {
        "score": 0,
        "neurons": 1,
        "stable": 4,
        "signs": 5,
        "shuffled": 0,
        "zeroed": 2,
        "swapped": 3,
    }
    columns = [
        Column("head"),
        Column("pattern"),
        *(Column(name, ">", drop) for name, drop in drops.items()),
    ]
    yield table_of(columns, rows, width, apart=1)
    yield from wrapped(_MANY, width)


def _beside(row: pd.Series[Any], measure: str) -> str:
    """The own value and that of rotated bases.

    It is `11.4<13.2`, and below 1 `.09≈.21`; nothing for NaN.
    """
    between = sign(row, measure)
    if not between:
        return ""
    values = (row[measure], row[f"{measure}_rotated"])
    if max(values) > 1:
        texts = [f"{value:.1f}" for value in values]
    else:
        texts = [f"{value:.2f}".removeprefix("0") for value in values]
    return between.join(texts)


def _keys(
    explanations: Explanations, head: Head, query: int, width: int
) -> Iterator[RenderableType]:
    """The keys of the query, by weight, each with its logit and the neurons that add most to it."""
    frame = explanations.keys(head, query).sort_values("weight", ascending=False, kind="stable")
    first = frame.iloc[0]
    title = f"{head.name}  {plain(first['query_token']).strip()}"
    yield Text.assemble((title, "bold"), (f"  token {first['query']}", "dim"))
    rows = []
    products = frame.filter(like="neuron_").to_numpy()
    for key, added in zip(frame[:_SHOWN_KEYS].to_dict("records"), products, strict=False):
        name = plain(key["key_token"]).strip()[:14] or "␣"
        token = Text.assemble((f"{key['key']:>3} ", "dim"), name)
        most = np.argsort(-np.abs(added), kind="stable")[:_SHOWN_NEURONS]
        neurons = "  ".join(f"{neuron:>3} {added[neuron]:+.1f}" for neuron in most)
        rows.append([token, key["weight"], key.get("logit"), neurons])
    columns = (
        Column("key"),
        Column("weight", ">.3f"),
        Column("q·k/√d", ">.2f"),
        Column("neurons", "", 1),
    )
    yield table_of(columns, rows, width)
    if len(frame) > _SHOWN_KEYS:
        weaker = counted(len(frame) - _SHOWN_KEYS, "weaker key")
        yield Text(f"and {weaker}; --csv lists all", style="dim")
