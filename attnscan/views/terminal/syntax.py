"""The screens of `syntax`: the best head of each relation beside the best rule, and a map of what heads follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.syntax import FEW, FEWEST, HEAD, LEAST_WEIGHT, NOTHING, Syntax
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import flowed, model_line, number, wrapped

_ROWS, _RANKED = 18, 15
_OF_HEAD = "head", "right", "rule", "gain", "weight"
_KEY = (
    "right: how often the most attended other word is the one. rule: the best fixed rule, so many words away or the "
    "nearest of a part of speech. gain: with its 95 % interval, * if it holds by Holm. weight: on the targets, of all."
)


def syntax_view(result: Syntax, width: int, relation: str | None = None, *, every: bool = False) -> RenderableType:
    """The relations that some head follows, best first, or all; or all heads for one relation.

    Raises: SelectionError for a relation that the treebank does not have.
    """
    about = f"  {counted(result.sentences, 'sentence')}, {result.words:,} words"
    blocks: list[RenderableType] = [model_line(result.signature, about), *wrapped(_summary(result), width, style="")]
    blocks += wrapped(" ".join(_warnings(result)), width)
    of_head = (*_OF_HEAD, *(() if result.held is None else ("held",)))
    if relation is not None:
        for row in result.row_numbers(relation):
            order = result.order(row)
            shown = [(row, result.grid[head]) for head in (order if every else order[:_RANKED])]
            table = relations_table(result, shown, of_head).screen(width, apart=1)
            blocks += ["", Text(_row_name(result, row), style="bold"), table]
            if len(shown) < len(order):
                blocks.append(Text(f"{len(shown)} of {len(order)} heads; --all for all.", style="dim"))
        return Group(*blocks, "", *wrapped(_KEY, width))
    best = {row: result.grid[order[0]] for row in range(len(result.rows)) if len(order := result.order(row))}
    places = {row: (*head.place, row) for row, head in best.items()}
    rows = sorted(best, key=lambda row: (result.stated[places[row]], result.gain[places[row]]), reverse=True)
    kept = rows if every else rows[:_ROWS]
    table = relations_table(result, [(row, best[row]) for row in kept], ("relation", *of_head))
    blocks += ["", table.screen(width, apart=1)]
    if len(kept) < len(rows):
        blocks += [Text(f"{len(kept)} of {len(rows)} rows; --all for all, --relation R for one.", style="dim")]
    blocks += [*wrapped(_KEY, width), *wrapped(" ".join(_cautions(result, best)), width, style=""), ""]
    return Group(*blocks, *_map(result, width))


def _summary(result: Syntax) -> str:
    """How many gains hold, here and in the second treebank, how many heads say something, and the trees."""
    said = f"{result.holds.sum():,} gains over fixed rules hold by Holm ({_heads(result.holds)})"
    if result.held is not None:
        held = result.holds & (result.of_held("holds") == 1)
        said += f", {held.sum():,} of these ({_heads(held)}) in the second treebank, too"
    follow = counted(len(result.statements), "head follows", "heads follow")
    said += f"; {follow} a relation beyond these."
    if np.isnan(result.uuas).all():
        return said
    tree, uuas = result.grid[int(np.nanargmax(result.uuas))], number(float(np.nanmax(result.uuas)))
    return f"{said} Trees of {tree.name}: UUAS {uuas}, the chain {number(result.chain_uuas)}."


def _heads(rows: NDArray[np.bool_]) -> str:
    """How many heads have one of the rows."""
    return counted(int(rows.any(-1).sum()), "head")


def _warnings(result: Syntax) -> Iterator[str]:
    if result.sentences < FEW:
        yield f"Below {FEW} sentences, results may not hold in other texts."
    if result.clusters < 2:
        yield "The treebank is one document, so gains have no error, and none can hold: name files of more documents."
    if result.wordless:
        yield f"{result.wordless:,} of {counted(result.words, 'word')} without a token: neither asked nor a target."


def _cautions(result: Syntax, best: dict[int, Head]) -> Iterator[str]:
    """What a reader may take for more than it is, where that applies."""
    if holds := int(result.holds.sum()):
        yield f"A small p is little by itself: {result.stated.sum()} of the {holds} gains make a statement."
    if light := sum(result.weight_among_words[(*head.place, row)] < LEAST_WEIGHT for row, head in best.items()):
        yield f"In {counted(int(light), 'row')} the best head has less than {LEAST_WEIGHT} of its weight on targets."
    if few := len({row.relation for row in result.rows} - {result.rows[row].relation for row in best}):
        yield f"{counted(few, 'relation')} in fewer than {FEWEST} sentences {'has' if few == 1 else 'have'} no numbers."
    yield "The treebank's guidelines decide what is a head."


def _row_name(result: Syntax, row: int) -> str:
    relation = plain(result.rows[row].relation)
    return f"{relation} → head" if result.rows[row].direction == HEAD else f"head → {relation}"


def relations_table(result: Syntax, rows: Sequence[tuple[int, Head]], names: Sequence[str]) -> Table:
    """Heads held against rows, by the columns of those names."""
    cells = []
    of_rows, held = result.of_rows, result.of_held("gain")
    for row, head in rows:
        place = (*head.place, row)
        width = half_width(result.se[place], max(2, result.clusters))
        error = "" if np.isnan(width) else f" ± {width:.2f}{'*' if result.holds[place] else ' '}"
        texts: dict[str, str | Text] = {
            "relation": _row_name(result, row),
            "head": Text(head.name, style="bold" if result.stated[place] else ""),
            "right": number(result.accuracy[place]),
            "rule": f"{of_rows.rule[row]} {number(of_rows.rule_accuracy[row])}",
            "gain": f"{result.gain[place]:+.2f}{error}",
            "weight": number(result.weight[place]),
            "held": "" if np.isnan(held[place]) else f"{held[place]:+.2f}",
        }
        cells.append([texts[name] for name in names])
    left = ("relation", "head")
    return Table([Column(name, "" if name in left else ">", int(name == "weight")) for name in names], cells)


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
