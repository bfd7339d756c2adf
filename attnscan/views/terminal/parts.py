"""What all screens share.

Everything is readable without colour: letters carry what colours carry.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from attnscan.results.signature import AttentionView, Signature
from attnscan.text import plain
from attnscan.views.palette import COLORS, letter, mark_of

if TYPE_CHECKING:
    from attnscan.results.grid import Head
    from attnscan.results.scores import Labels

_SHORTEST_BAR = 8  # columns of a bar of 1
_LONGEST_BAR = 30


def render(
    content: RenderableType, width: int, color_system: str | None = None, no_color: bool = False
) -> str:
    """What a terminal of that width would get, as text.

    It obeys our own colours, and nothing else in the text.
    """
    file = io.StringIO()
    _print(content, file, width, color_system, no_color)
    lines = file.getvalue().split("\n")[:-1]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_html(content: RenderableType, width: int) -> str:
    """The screen for a notebook, with inline styles alone."""
    console = _print(content, io.StringIO(), width, "truecolor")
    # notebooks would break long lines anywhere, and marimo's column is 740 pixels wide
    style = "font-size:13px;line-height:1.2;white-space:pre;overflow-x:auto"
    code = f'<pre style="{style}">{{code}}</pre>'
    return console.export_html(inline_styles=True, code_format=code)


def _print(
    content: RenderableType,
    file: io.StringIO,
    width: int,
    color_system: str | None,
    no_color: bool = False,
) -> Console:
    """Print on a console of our own.

    All text of all screens is made plain here, whoever forgot it before.
    """
    console = Console(
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
    segments = []
    for segment in console.render(content):
        text = "\n".join(map(plain, segment.text.split("\n")))
        segments.append(segment if segment.control else Segment(text, segment.style))
    console.print(Segments(segments))
    return console


class Column(NamedTuple):
    """How one column of a table reads."""

    title: str
    form: str = ""
    """As in format strings, such as `>.3f`; what begins with `>` stands at the right, and None and
    NaN are blank. Or `bar`, for the last column of a screen: each value is a length in [0, 1] and a
    colour, drawn where there is room."""
    drop: int = 0
    """Where a screen is narrow, the highest go first; 0 stays."""


class _Cells(NamedTuple):
    """A column with the texts of its cells, and the width of the widest."""

    column: Column
    texts: list[Text]
    width: int


def table_of(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    width: int,
    *,
    apart: int = 2,
    header: str = "dim",
) -> Table:
    """Rows of values by the columns that fit into a width, so many spaces apart.

    A value that is a `Text` stays so.
    """
    fitting = _fitting(columns, rows, width, apart)
    table = Table(
        box=None, padding=(0, apart, 0, 0), header_style=header, show_edge=False, pad_edge=False
    )
    for column, _, _ in fitting:
        side: Any = "right" if column.form.startswith(">") else "left"
        table.add_column(column.title, justify=side, no_wrap=True, min_width=cell_len(column.title))
    texts = [cells.texts for cells in fitting]
    room = _bar_room(columns[-1], fitting, width, apart)
    if room:
        gap = " " * (2 - apart)
        table.add_column(gap + columns[-1].title, no_wrap=True)
        bars = [row[-1] for row in rows]
        texts.append([Text(gap + "█" * round(room * share), color) for share, color in bars])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def has_bars(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int, *, apart: int = 2
) -> bool:
    """Whether a table of these rows has room for bars."""
    return _bar_room(columns[-1], _fitting(columns, rows, width, apart), width, apart) > 0


def _bar_room(last: Column, fitting: Sequence[_Cells], width: int, apart: int) -> int:
    """The columns of a bar of 1 behind those that fit; 0 where there is no room, or are no bars."""
    room = min(_LONGEST_BAR, width - _table_width(fitting, apart) - 2)
    is_drawn = last.form == "bar" and room >= max(_SHORTEST_BAR, len(last.title))
    return room if is_drawn else 0


def _fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int, apart: int
) -> list[_Cells]:
    """The columns that fit into a width, bars excepted, without those that are dropped first."""
    fitting = []
    for column, *values in zip(columns, *rows, strict=True):
        if column.form != "bar":
            texts = [_cell(value, column.form) for value in values]
            widths = [cell_len(column.title), *(text.cell_len for text in texts)]
            fitting.append(_Cells(column, texts, max(widths)))
    while _table_width(fitting, apart) > width and any(cells.column.drop for cells in fitting):
        fitting.remove(max(fitting, key=lambda cells: cells.column.drop))
    return fitting


def _table_width(cells: Sequence[_Cells], apart: int) -> int:
    return sum(column.width + apart for column in cells) - apart


def _cell(value: Any, form: str) -> Text:
    if isinstance(value, Text):
        return value
    if value is None or value != value:
        return Text()
    return Text(plain(format(value, form)))


def model_line(signature: Signature, counts: str = "") -> Text:
    """A screen's first line: the model, and what it ran on."""
    machine = plain(f"  {signature.device} {signature.dtype}")
    reading = f"  {signature.reading}" if signature.reading != AttentionView() else ""
    return Text.assemble((plain(signature.model), "bold"), counts, (machine, "dim"), reading)


def flowed(entries: Iterable[Text], width: int) -> Iterator[Text]:
    """Lines of entries two spaces apart.

    No entry is broken, as a text wrapped by words would be.
    """
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


def named(pattern: str) -> Text:
    """The letter and name of a pattern or habit, in its colour."""
    return Text(f"{letter(pattern)} {plain(pattern) or 'none'}", style=color_of(pattern))


def marked(labels: Labels, head: Head, *, with_name: bool = True, changed: bool = False) -> Text:
    """A head's mark and the name of what it does among words, in its colour; grey if it rests."""
    name = str(labels.among_words[head.place])
    text = mark_of(labels, head, changed=changed)
    if with_name:
        text += f" {plain(name) or 'none'}"
    is_grey = labels.rests[head.place] or not name
    return Text(text, style="dim" if is_grey else color_of(name))


def color_of(pattern: str) -> str:
    """A pattern's colour; a user's own pattern has none."""
    return COLORS.get(pattern, "default")


def number(value: float, decimals: int = 2) -> str:
    """A number with so many decimals; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{decimals}f}"
