"""What all screens share: rendering, and the small things that look the same on each.

Everything is readable without colour: letters carry what colours carry.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from attnscan.results.signature import Reading, Signature
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.palette import COLORS, letter


def render(content: RenderableType, width: int, color_system: str | None = None, no_color: bool = False) -> str:
    """What a terminal of that width would get, as text: it obeys our own colours, and nothing else in it."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        color_system=color_system,  # type: ignore[arg-type]
        force_terminal=color_system is not None,
        no_color=no_color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(_Shown(content))
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n")[:-1]) + "\n"


class _Shown:
    """The door that all text of all screens goes through, whoever forgot it before."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._content, options):
            text = "\n".join(map(plain, segment.text.split("\n")))
            yield segment if segment.control else Segment(text, segment.style)


def model_line(signature: Signature, more: str = "") -> Text:
    """A screen's first line: the model, and what it ran on."""
    where = plain(f"  {signature.device} {signature.dtype}")
    reading = f"  {signature.reading}" if signature.reading != Reading() else ""
    return Text.assemble((plain(signature.model), "bold"), more, (where, "dim"), reading)


def flowed(entries: Iterable[Text], width: int) -> Iterator[Text]:
    """Lines of entries two spaces apart; no entry is broken, as a text wrapped by words would be."""
    line = Text()
    for entry in entries:
        if line and line.cell_len + 2 + entry.cell_len > width:
            yield line
            line = Text()
        line = Text("  ").join([line, entry]) if line else entry.copy()
    yield line


def columns(
    texts: Iterable[str], numbers: Iterable[str], more_texts: Iterable[str] = (), *, header: str = "dim", apart: int = 2
) -> Table:  # fmt: skip
    """An empty table without lines: columns of texts, then of numbers, which stand at the right, then of texts."""
    table = Table(box=None, padding=(0, apart, 0, 0), header_style=header, show_edge=False, pad_edge=False)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for name in more_texts:
        table.add_column(name, no_wrap=True)
    return table


def fitted(table: Table, width: int, *drop: str) -> Table:
    """The table without as many of the columns called `drop`, the first ones first, as a width has no room for."""
    kept = list(table.columns)
    for name in drop:
        if _width(kept, table.padding[1]) <= width:
            break
        kept = [column for column in kept if str(column.header) != name]
    fewer = Table(box=None, padding=table.padding, header_style=table.header_style, show_edge=False, pad_edge=False)
    for column in kept:
        how = {name: getattr(column, name) for name in ("justify", "no_wrap", "min_width", "style")}
        fewer.add_column(column.header, **how)
    for row in zip(*(column.cells for column in kept), strict=True):
        fewer.add_row(*row)
    return fewer


def _width(columns: Sequence[Column], apart: int) -> int:
    """How wide columns of a table are together."""
    cells = ([column.header, *column.cells] for column in columns)
    widths = (max(cell_len(line) for cell in column for line in (str(cell).split("\n"))) for column in cells)
    return sum(max(width, column.min_width or 0) + apart for width, column in zip(widths, columns, strict=True)) - apart


def beyond(value: float, se: float) -> bool:
    """Whether a value is more than two standard errors from nothing; it is not known to be where there is no error.

    What is not has no bar: a bar would make it look like a find.
    """
    return abs(value) > 2 * se  # false for NaN


def wrapped(text: str, width: int, style: str = "dim") -> Iterator[Text]:
    """A paragraph, line by line."""
    return (Text(line, style=style) for line in textwrap.wrap(text, width))


def named(pattern: str, *, unsure: bool = False) -> Text:
    """A label's letter and name, in its colour; one that is not sure has a question mark."""
    return Text(f"{letter(pattern)} {plain(pattern) or 'none'}{'?' if unsure else ''}", style=color_of(pattern))


def color_of(pattern: str) -> str:
    """A pattern's colour; a user's own pattern has none."""
    return COLORS.get(pattern, "default")


def some_of(shown: int, heads: int) -> str:
    """That a list has not all heads, and how to see them."""
    return f"{shown} of {counted(heads, 'head')}; --top {heads} for all."


def number(value: float) -> str:
    """Two decimals; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:.2f}"


def decimals(value: float) -> str:
    """Three decimals; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:.3f}"
