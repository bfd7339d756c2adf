"""What all screens share. Everything is readable without colour: letters carry what colours carry."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from attnscan.results.terms import Reading, Signature
from attnscan.text import plain
from attnscan.views.palette import COLORS, letter


def render(content: RenderableType, width: int, color_system: str | None = None, no_color: bool = False) -> str:
    """What a terminal of that width would get, as text: it obeys our own colours, and nothing else in it."""
    file = io.StringIO()
    _console(file, width, color_system, no_color).print(_Shown(content))
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n")[:-1]) + "\n"


def render_html(content: RenderableType, width: int) -> str:
    """The screen for a notebook, with inline styles alone."""
    console = _console(io.StringIO(), width, "truecolor")
    console.print(_Shown(content))
    code = '<pre style="line-height:1.2;overflow-x:auto">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=code)


def _console(file: io.StringIO, width: int, color_system: str | None, no_color: bool = False) -> Console:
    return Console(
        file=file,
        record=True,
        width=width,
        color_system=color_system,  # type: ignore[arg-type]
        force_terminal=color_system is not None,
        force_jupyter=False,  # else a notebook shows it at once, and again as the result
        no_color=no_color,
        highlight=False,
        markup=False,
        emoji=False,
    )


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


def wrapped(text: str, width: int, style: str = "dim") -> Iterator[Text]:
    """A paragraph, line by line."""
    return (Text(line, style=style) for line in textwrap.wrap(text, width))


def named(pattern: str, *, unsure: bool = False) -> Text:
    """A label's letter and name, in its colour; one that is not sure has a question mark."""
    return Text(f"{letter(pattern)} {plain(pattern) or 'none'}{'?' if unsure else ''}", style=color_of(pattern))


def color_of(pattern: str) -> str:
    """A pattern's colour; a user's own pattern has none."""
    return COLORS.get(pattern, "default")


def number(value: float, decimals: int = 2) -> str:
    """A number with so many decimals; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:.{decimals}f}"
