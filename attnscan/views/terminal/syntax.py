"""The screens of `syntax`: the best head of each relation, the best rule, and a map of heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import Head
from attnscan.results.lazy import pd
from attnscan.results.syntax import (
    FEW_SENTENCES,
    HEAD,
    MIN_SENTENCES,
    MIN_WEIGHT,
    NOTHING,
    Row,
    Syntax,
)
from attnscan.text import counted, plain
from attnscan.views.terminal.parts import Column, flowed, model_line, number, table_of, wrapped

_ROWS = 18
_RANKED = 15
_HEAD_COLUMNS = ("head", "right", "rule", "gain", "weight")
_KEY = (
    "right: how often the most attended other word is the one. rule: the best fixed rule, so many "
    "words away, the nearest of a part of speech or the nearest same word. gain: with its 95 % "
    "interval, * if it holds by Holm. weight: on the targets, of all."
)


def syntax_view(
    result: Syntax, width: int, relation: str | None = None, *, every: bool = False
) -> RenderableType:
    """The relations that some head follows, best first, or all; or all heads for one relation.

    Raises: SelectionError for a relation that the treebank, or the links, do not have.
    """
    about = f"  {result.count_inputs()}, {result.words:,} words"
    blocks: list[RenderableType] = [
        model_line(result.signature, about),
        *wrapped(_summary(result), width, style=""),
    ]
    blocks += wrapped(" ".join(_warnings(result)), width)
    names = (*_HEAD_COLUMNS, "held") if result.held is not None else _HEAD_COLUMNS
    if relation is not None:
        blocks += _heads_of(result, relation, names, width, every=every)
        return Group(*blocks, "", *wrapped(_KEY, width))
    best = result.best().sort_values(["stated", "gain"], ascending=False, kind="stable")
    drawn = best if every else best[:_ROWS]
    blocks += ["", relations_table(result, drawn, ("relation", *names), width)]
    if len(drawn) < len(best):
        note = f"{len(drawn)} of {len(best)} rows; --all for all, --relation R for one."
        blocks.append(Text(note, style="dim"))
    blocks += wrapped(_KEY, width)
    blocks += wrapped(" ".join(_cautions(result, best)), width, style="")
    return Group(*blocks, "", *_map(result, width))


def _heads_of(
    result: Syntax, relation: str, names: Sequence[str], width: int, *, every: bool
) -> Iterator[RenderableType]:
    """The heads that are most often right for a relation, in each direction."""
    for direction, rows in result.to_frame(relation).groupby("direction", sort=False):
        known = rows.dropna(subset="accuracy")
        ranked = known.sort_values("accuracy", ascending=False, kind="stable")
        drawn = ranked if every else ranked[:_RANKED]
        yield ""
        row = Row(relation, str(direction))
        yield Text(_row_name(result, row), style="bold")
        yield relations_table(result, drawn, names, width)
        if len(drawn) < len(ranked):
            yield Text(f"{len(drawn)} of {len(ranked)} heads; --all for all.", style="dim")


def _summary(result: Syntax) -> str:
    """How many gains hold, here and in the second treebank, what heads follow, and the trees."""
    text = (
        f"{result.holds.sum():,} gains over fixed rules hold by Holm ({_count_heads(result.holds)})"
    )
    if result.held is not None:
        again = result.holds & (result.held_values("holds") == 1)
        second = "the second treebank" if result.held.has_trees else "the second links"
        text += f", {again.sum():,} of these ({_count_heads(again)}) in {second}, too"
    heads = counted(len(result.statements), "head follows", "heads follow")
    text += f"; {heads} a relation beyond these."
    if np.isnan(result.uuas).all():
        return text
    tree = result.grid[int(np.nanargmax(result.uuas))]
    uuas = number(float(np.nanmax(result.uuas)))
    return f"{text} Trees of {tree.name}: UUAS {uuas}, the chain {number(result.chain_uuas)}."


def _count_heads(holds: NDArray[np.bool_]) -> str:
    """How many heads have a gain that holds. Shape: `holds` [layer, head, relation]."""
    return counted(int(holds.any(-1).sum()), "head")


def _warnings(result: Syntax) -> Iterator[str]:
    if result.sentences < FEW_SENTENCES:
        inputs = "sentences" if result.has_trees else "inputs"
        yield f"Below {FEW_SENTENCES} {inputs}, results may not hold in other texts."
    if result.clusters < 2:
        subject = "The treebank is" if result.has_trees else "The links are of"
        yield (
            f"{subject} one document, so gains have no error, and none can hold: name files "
            "of more documents."
        )
    if result.wordless:
        words = counted(result.words, "word")
        yield f"{result.wordless:,} of {words} without a token: neither asked nor a target."


def _cautions(result: Syntax, best: pd.DataFrame) -> Iterator[str]:
    """What a reader may take for more than it is, where that applies."""
    holds = int(result.holds.sum())
    if holds:
        stated = f"{result.stated.sum()} of the {holds} gains make a statement."
        yield f"A small p is little by itself: {stated}"
    light = int((best["weight_among_words"] < MIN_WEIGHT).sum())
    if light:
        yield (
            f"In {counted(light, 'row')} the best head has less than {MIN_WEIGHT} of its weight "
            "on targets."
        )
    relations = {row.relation for row in result.rows} - {"all"}
    few = len(relations - {*best["relation"]})
    if few:
        have = "has" if few == 1 else "have"
        sentences = f"fewer than {MIN_SENTENCES} {'sentences' if result.has_trees else 'inputs'}"
        yield f"{counted(few, 'relation')} in {sentences} {have} no numbers."
    if result.has_trees:
        yield "The treebank's guidelines decide what is a head."
    else:
        yield "Whoever made the links decided what is linked."


def _row_name(result: Syntax, row: Row) -> str:
    """A row as `obj → head` or, of links that are no treebank's, `coref → target`."""
    end = row.head
    if row.relation == "all" and not result.has_trees:
        end = "target"
    relation = plain(row.relation)
    return f"{relation} → {end}" if row.direction == HEAD else f"{end} → {relation}"


def relations_table(result: Syntax, rows: pd.DataFrame, names: Sequence[str], width: int) -> Table:
    """Rows of a table of the result, by the columns of those names."""
    cells = []
    halves = result.half_widths(rows).tolist()
    for row, half in zip(rows.to_dict(orient="records"), halves, strict=True):
        star = "*" if row["holds"] else " "
        error = "" if np.isnan(half) else f" ± {half:.2f}{star}"
        name = Head(row["layer"], row["head"]).name
        texts: dict[str, str | Text] = {
            "relation": _row_name(result, Row(row["relation"], row["direction"])),
            "head": Text(name, style="bold" if row["stated"] else ""),
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
