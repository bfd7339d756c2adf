"""The screens of `models` and `patterns`: what can run now, what one checkpoint is, and the seven patterns, drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import Grid
from attnscan.results.terms import MEASURES, counted
from attnscan.safe_text import plain
from attnscan.scoring.pattern import Pattern
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.terminal.parts import named

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from attnscan.model.catalog import Catalog
    from attnscan.results.checkpoint import Checkpoint


_READ_BY = {
    "tap": "the tap: layer by layer, one in memory",
    "output_attentions": "output_attentions: all layers in memory",
}

_NOT_DRAWN = "    No fixed matrix: the model is asked which words help to predict which."


def models_view(catalog: Catalog) -> RenderableType:
    """A line for each model that can run now, and what a run without --model takes."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in ("--model", "family", "heads", "state", "where"):
        grid.add_column(name, overflow="fold")
    for entry in catalog.entries:
        size = f"{entry.layers or '?'} × {entry.heads or '?'}"
        cells = (entry.model, entry.family, size, entry.state, entry.where)
        grid.add_row(*(Text(plain(cell)) for cell in cells))
    hub = (
        "answers: --model can be any id of it"
        if catalog.hub
        else "does not answer: only the models above and local directories can run"
    )
    return Group(grid, "", Text(plain(f"Without --model: {catalog.default}")), Text(f"The model hub {hub}"))


def checkpoint_view(checkpoint: Checkpoint) -> RenderableType:
    """The facts, a line each, then the patterns, and the measures of `ablate`."""
    c, grid = checkpoint, Grid.square(checkpoint.layers, checkpoint.heads)
    heads = {"masked-LM": c.masked_lm_head, "next-sentence": c.next_sentence_head, "classifier": c.classifier_head}
    facts = {
        "family": f"{c.family} ({c.architecture})",
        "heads": f"{grid} = {len(grid)}",
        "read by": _READ_BY[c.read_by],
        "template": c.template,
        "longest input": counted(c.longest_input, "token") if c.longest_input else "no limit known",
        "positions": c.positions or "cannot be told",
        "segment ids": "used" if c.segment_ids else "none",
        "mask token": c.mask_token or "none",
        "saved as": c.saved_as or "cannot be told",
        "task heads": ", ".join(name for name, there in heads.items() if there) or "none trained",
    }
    return Group(
        Text(plain(c.model), style="bold"),
        "",
        _grid((Text(name), Text(plain(value))) for name, value in facts.items()),
        "",
        Text("patterns that can be scored", style="bold"),
        _grid((named(pattern), _allowed(c.allows(pattern))) for pattern in c.patterns),
        "",
        Text("measures of attnscan ablate", style="bold"),
        _grid((Text(measure), _allowed(c.allows(measure))) for measure in MEASURES),
    )


def _allowed(answer: str) -> Text:
    return Text(plain(answer), style="" if answer == "yes" else "dim")


def _grid(rows: Iterable[tuple[Text, Text]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for row in rows:
        grid.add_row(*row)
    return grid


def draw(matrix: NDArray[np.float64], labels: Sequence[str], rows: Sequence[int]) -> str:
    """A target as in the docstrings of `scoring.patterns`: chosen queries downwards, keys across, a dot for 0.

    Shape: `matrix` is [query, key]; `labels` has one text for each.

    >>> import numpy as np
    >>> print(draw(np.array([[0, 1], [0.25, 0]]), ["a", "cat"], [0, 1]))
          a cat
      a   ·   1
    cat .25   ·
    """
    width = max(map(len, labels))
    cell = max(width, 3) + 1

    def line(name: str, cells: Sequence[str]) -> str:
        return name.rjust(width) + "".join(text.rjust(cell) for text in cells)

    body = [line(labels[row], [_cell(float(value)) for value in matrix[row]]) for row in rows]
    return "\n".join([line("", labels), *body])


def patterns_text() -> str:
    """The seven patterns, each with what it counts and its target on a toy pair. Fits 80 columns."""
    blocks = [
        'The patterns of Jesse Vig, "Deconstructing BERT" (2018/19), on a toy pair.\n'
        "Rows are queries, columns are keys; a dot is 0."
    ]
    for pattern in PATTERNS:
        drawing = pattern.drawing or _NOT_DRAWN
        blocks.append(f"{pattern.letter} {pattern.id}: {pattern.counts}\n{drawing}")
    return "\n\n".join(blocks) + "\n"


def pattern_text(pattern: Pattern, width: int) -> str:
    """One pattern in full: what it counts, of which queries and keys, by chance, and its target on the toy pair."""
    by_chance = "" if pattern.drawn_chance is None else f", {pattern.drawn_chance:.2f} on the pair below"
    facts = {
        "queries": pattern.queries,
        "keys": pattern.keys,
        "chance": f"the score if each query spread its weight evenly over the keys it may see{by_chance}",
        "source": pattern.source,
    }
    lines = [f"{pattern.letter} {pattern.id}: {pattern.counts}", ""]
    for name, text in facts.items():
        lines += textwrap.wrap(text, width, initial_indent=name.ljust(9), subsequent_indent=" " * 9)
    return "\n".join([*lines, "", pattern.drawing or _NOT_DRAWN]) + "\n"


def _cell(value: float) -> str:
    if value in (0, 1):
        return "·" if value == 0 else "1"
    return f"{value:.2f}".removeprefix("0")
