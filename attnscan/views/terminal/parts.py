"""What all screens share: rendering, and the small things that look the same on each.

Everything is readable without colour: letters carry what colours carry.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from attnscan.results.signature import Signature
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
            yield segment if segment.control else Segment(_lines_of(segment.text), segment.style)


def _lines_of(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def model_line(signature: Signature, more: str = "") -> Text:
    """A screen's first line: the model, and what it ran on."""
    where = plain(f"  {signature.device} {signature.dtype}")
    carried = "  by what heads carry" if signature.norm else ""
    return Text.assemble((plain(signature.model), "bold"), more, (where, "dim"), carried)


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
    table = Table(box=None, padding=(0, apart, 0, 0), header_style=header, show_edge=False)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for name in more_texts:
        table.add_column(name, no_wrap=True)
    return table


def wrapped(text: str, width: int, style: str = "dim") -> Iterator[Text]:
    """A paragraph, line by line."""
    return (Text(line, style=style) for line in textwrap.wrap(text, width))


def named(pattern: str, *, unsure: bool = False) -> Text:
    """A pattern's letter and name, in its colour; a head's label that is not sure has a question mark."""
    return Text(f"{letter(pattern)} {plain(pattern)}{'?' if unsure else ''}", style=color_of(pattern))


def color_of(pattern: str) -> str:
    """A pattern's colour; a user's own pattern has none."""
    return COLORS.get(pattern, "default")


def number(value: float) -> str:
    """Two decimals; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:.2f}"


def decimals(value: float) -> str:
    """Three decimals; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:.3f}"
