"""The screens of `explain`: one head and its causes, one query's keys and neurons, and many heads in a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.explanation import CAUSES, NEURONS, SHUFFLED, SHUFFLES, Explanations, sign
from attnscan.results.grid import Head
from attnscan.results.lazy import pd
from attnscan.text import counted, plain
from attnscan.views.behaviour import NOT_MEASURED
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import Column, model_line, named, number, table_of, wrapped

_SHOWN_KEYS, _SHOWN_NEURONS = 12, 4
_SIGNS = "≈: rotated bases give the same, so it says nothing of the model's own neurons. <, >: they give more, or less."
_MANY = f"(In brackets): the nearest pattern, without a label. neurons, stable, signs: in the own basis. {_SIGNS}"
_SHUFFLED = f"Positions: the mean of {SHUFFLES} shuffles of words; special tokens keep theirs. ±: one standard error."


def explanation_view(explanations: Explanations, width: int) -> RenderableType:
    """One head in full, what it comes to first; several as a list; if a token was asked about, what they make of it."""
    signature, heads, query = explanations.signature, explanations.heads, explanations.query
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
    notes = [
        f"{name.replace('_', ' ')}: {NOT_MEASURED}: {reason}" for name, reason in missing.items()
    ]
    shuffled = [] if SHUFFLED in missing else wrapped(_SHUFFLED, width)
    return Group(*blocks, *shuffled, *(Text(plain(note), style="dim") for note in notes))


def _one(explanations: Explanations, width: int) -> Iterator[RenderableType]:
    """One head's neurons, and its score beside chance and with each thing changed; bars are what is above chance."""
    (head,), labels = explanations.heads, explanations.labels
    row = explanations[head]
    label = named(row["label"], unsure=bool(labels.unsure[head.place]))
    yield Text.assemble(
        (f"{head.name}  ", "bold"), label, ("   explained: ", "dim"), named(row["pattern"])
    )
    rows: list[list[Any]] = []
    for name in NEURONS:
        columns = name, f"{name}_rotated", f"{name}_rotated_sd"
        value, mean, sd = (number(row[column], 2 + (name != NEURONS[0])) for column in columns)
        between = sign(row, name)
        rows.append(
            [
                name.replace("_", " "),
                value or NOT_MEASURED,
                f"{between} {mean} ± {sd}" if between else "",
            ]
        )
    yield table_of(
        [Column(""), Column("own basis", ">"), Column("rotated bases", "", 1)], rows, width
    )
    yield from wrapped(
        f"Queries and keys that are rotated together give the same weights. {_SIGNS}", width
    )
    yield ""
    scores = {"unchanged": (row["score"], row["se"]), "chance": (row["chance"], np.nan)}
    scores |= {name.replace("_", " "): (row[name], row[f"{name}_se"]) for name in CAUSES}
    rows = []
    for name, (score, se) in scores.items():
        error = "" if np.isnan(se) else f" ± {se:.3f}"
        sure = (
            score > row["chance"] and not score - row["chance"] <= 2 * se
        )  # a bar that is not would look like a find
        above = (score - row["chance"]) / (1 - row["chance"]) if sure else 0.0
        rows.append(
            [name, (number(score, 3) or NOT_MEASURED) + error, (above, COLORS["next-word"])]
        )
    yield table_of([Column(""), Column("score"), Column("above chance", "bar")], rows, width)


def _many(explanations: Explanations, width: int) -> Iterator[RenderableType]:
    """A row a head: own and rotated values side by side, and what stands between them says how they compare."""
    rows = []
    for head in explanations.heads:
        row, unsure = explanations[head], bool(explanations.labels.unsure[head.place])
        mark = named(row["pattern"], unsure=unsure)
        if row["label"] != row["pattern"]:
            mark = Text(f"({plain(row['pattern'])})", style="dim")
        shuffled, *segments = (number(row[name]) for name in CAUSES)
        if not np.isnan(se := row[f"{SHUFFLED}_se"]):
            shuffled += f"±{se:.2f}".replace("±0", "±")
        neurons = (_beside(row, name) for name in NEURONS)
        rows.append([head.name, mark, number(row["score"]), *neurons, shuffled, *segments])
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
    """The own value and that of rotated bases: `11.4<13.2`, and below 1 `.09≈.21`; nothing for NaN."""
    values = row[measure], row[f"{measure}_rotated"]
    texts = (
        f"{value:.1f}" if max(values) > 1 else f"{value:.2f}".removeprefix("0") for value in values
    )
    return between.join(texts) if (between := sign(row, measure)) else ""


def _keys(
    explanations: Explanations, head: Head, query: int, width: int
) -> Iterator[RenderableType]:
    """The keys of the query, by weight, each with its logit and the neurons that add most to it."""
    frame = explanations.keys(head, query).sort_values("weight", ascending=False, kind="stable")
    first = frame.iloc[0]
    title = f"{head.name}  {plain(first['query_token']).strip()}"
    yield Text.assemble((title, "bold"), (f"  token {first['query']}", "dim"))
    rows, products = [], frame.filter(like="neuron_").to_numpy()
    for key, added in zip(frame[:_SHOWN_KEYS].to_dict("records"), products, strict=False):
        token = Text.assemble(
            (f"{key['key']:>3} ", "dim"), plain(key["key_token"]).strip()[:14] or "␣"
        )
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
        yield Text(
            f"and {counted(len(frame) - _SHOWN_KEYS, 'weaker key')}; --csv lists all", style="dim"
        )
