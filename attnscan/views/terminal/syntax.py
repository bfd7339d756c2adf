"""The screens of `syntax`: the best head of each relation beside the best rule, and a map of what heads follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.lazy import pd
from attnscan.results.syntax import FEW_SENTENCES, HEAD, MIN_SENTENCES, MIN_WEIGHT, NOTHING, Syntax
from attnscan.text import counted, plain
from attnscan.views.terminal.parts import Column, flowed, model_line, number, table_of, wrapped

_ROWS, _RANKED = 18, 15
_OF_HEAD = ("head", "right", "rule", "gain", "weight")
_KEY = (
    "right: how often the most attended other word is the one. rule: the best fixed rule, so many words away or the "
    "nearest of a part of speech. gain: with its 95 % interval, * if it holds by Holm. weight: on the targets, of all."
)


def syntax_view(
    result: Syntax, width: int, relation: str | None = None, *, every: bool = False
) -> RenderableType:
    """The relations that some head follows, best first, or all; or all heads for one relation.

    Raises: SelectionError for a relation that the treebank does not have.
    """
    about = f"  {counted(result.sentences, 'sentence')}, {result.words:,} words"
    blocks: list[RenderableType] = [
        model_line(result.signature, about),
        *wrapped(_summary(result), width, style=""),
    ]
    blocks += wrapped(" ".join(_warnings(result)), width)
    names = (*_OF_HEAD, "held") if result.held is not None else _OF_HEAD
    if relation is not None:
        for direction, rows in result.to_frame(relation).groupby("direction", sort=False):
            ranked = rows.dropna(subset="accuracy").sort_values(
                "accuracy", ascending=False, kind="stable"
            )
            drawn = ranked if every else ranked[:_RANKED]
            title = Text(_row_name(relation, str(direction)), style="bold")
            blocks += ["", title, relations_table(result, drawn, names, width)]
            if len(drawn) < len(ranked):
                blocks.append(
                    Text(f"{len(drawn)} of {len(ranked)} heads; --all for all.", style="dim")
                )
        return Group(*blocks, "", *wrapped(_KEY, width))
    best = result.best().sort_values(["stated", "gain"], ascending=False, kind="stable")
    drawn = best if every else best[:_ROWS]
    blocks += ["", relations_table(result, drawn, ("relation", *names), width)]
    if len(drawn) < len(best):
        blocks.append(
            Text(
                f"{len(drawn)} of {len(best)} rows; --all for all, --relation R for one.",
                style="dim",
            )
        )
    blocks += [
        *wrapped(_KEY, width),
        *wrapped(" ".join(_cautions(result, best)), width, style=""),
        "",
    ]
    return Group(*blocks, *_map(result, width))


def _summary(result: Syntax) -> str:
    """How many gains hold, here and in the second treebank, how many heads say something, and the trees."""
    of_both = result.holds, result.holds & (result.held_values("holds") == 1)
    gains, again = (f"({counted(int(rows.any(-1).sum()), 'head')})" for rows in of_both)
    text = f"{result.holds.sum():,} gains over fixed rules hold by Holm {gains}"
    if result.held is not None:
        text += f", {of_both[1].sum():,} of these {again} in the second treebank, too"
    text += f"; {counted(len(result.statements), 'head follows', 'heads follow')} a relation beyond these."
    if np.isnan(result.uuas).all():
        return text
    tree, uuas = result.grid[int(np.nanargmax(result.uuas))], number(float(np.nanmax(result.uuas)))
    return f"{text} Trees of {tree.name}: UUAS {uuas}, the chain {number(result.chain_uuas)}."


def _warnings(result: Syntax) -> Iterator[str]:
    if result.sentences < FEW_SENTENCES:
        yield f"Below {FEW_SENTENCES} sentences, results may not hold in other texts."
    if result.clusters < 2:
        yield "The treebank is one document, so gains have no error, and none can hold: name files of more documents."
    if result.wordless:
        yield f"{result.wordless:,} of {counted(result.words, 'word')} without a token: neither asked nor a target."


def _cautions(result: Syntax, best: pd.DataFrame) -> Iterator[str]:
    """What a reader may take for more than it is, where that applies."""
    if holds := int(result.holds.sum()):
        yield f"A small p is little by itself: {result.stated.sum()} of the {holds} gains make a statement."
    if light := int((best["weight_among_words"] < MIN_WEIGHT).sum()):
        yield f"In {counted(light, 'row')} the best head has less than {MIN_WEIGHT} of its weight on targets."
    if few := len({row.relation for row in result.rows} - set(best["relation"])):
        yield f"{counted(few, 'relation')} in fewer than {MIN_SENTENCES} sentences {'has' if few == 1 else 'have'} no numbers."
    yield "The treebank's guidelines decide what is a head."


def _row_name(relation: str, direction: str) -> str:
    return f"{plain(relation)} → head" if direction == HEAD else f"head → {plain(relation)}"


def relations_table(result: Syntax, rows: pd.DataFrame, names: Sequence[str], width: int) -> Table:
    """Rows of a table of the result, by the columns of those names."""
    cells = []
    for row in rows.to_dict(orient="records"):
        half = half_width(row["se"], max(2, result.clusters))
        error = "" if np.isnan(half) else f" ± {half:.2f}{'*' if row['holds'] else ' '}"
        texts: dict[str, str | Text] = {
            "relation": _row_name(row["relation"], row["direction"]),
            "head": Text(
                Head(row["layer"], row["head"]).name, style="bold" if row["stated"] else ""
            ),
            "right": number(row["accuracy"]),
            "rule": f"{row['rule']} {number(row['rule_accuracy'])}",
            "gain": f"{row['gain']:+.2f}{error}",
            "weight": number(row["weight"]),
            "held": "" if np.isnan(row["held_gain"]) else f"{row['held_gain']:+.2f}",
        }
        cells.append([texts[name] for name in names])
    columns = [
        Column(name, "" if name in ("relation", "head") else ">", int(name == "weight"))
        for name in names
    ]
    return table_of(columns, cells, width, apart=1)


def _map(result: Syntax, width: int) -> Iterator[RenderableType]:
    """Every head's letter, and what letters say."""
    cell = 3 if 6 + 3 * result.grid.shape[1] <= width else 2
    for layer in result.grid.numbers:
        line = Text(f"{layer:>4}  ", style="dim")
        for mark in map(result.letter, result.grid.layer_of(Head(layer, 0))):
            line.append(mark.ljust(cell), style="dim" if mark == NOTHING else "bold")
        line.rstrip()
        yield line
    yield from flowed((Text(entry, style="dim") for entry in result.legend()), width)
