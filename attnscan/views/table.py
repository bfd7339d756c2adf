"""One table for all screens: columns say how they read, rows hold values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from attnscan.text import plain

_SHORTEST_BAR, _LONGEST_BAR = 8, 30  # columns of a bar of 1


class Column(NamedTuple):
    """How one column reads."""

    title: str
    form: str = ""
    """As in format strings, such as `>.3f`; what begins with `>` stands at the right, and None and NaN are blank. Or
    `bar`, for the last column of a screen: each value is a length in [0, 1] and a colour, drawn where there is room."""
    drop: int = 0
    """Where a screen is narrow, the highest go first; 0 stays."""


@dataclass(frozen=True)
class Table:
    """Rows of values; a `Text` keeps its colour."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]

    def screen(self, width: int, *, apart: int = 2, header: str = "dim") -> RichTable:
        """The columns that fit into a width, so many spaces apart."""
        kept = [
            (column, [cell if isinstance(cell, Text) else Text(_written(cell, column.form)) for cell in cells])
            for column, *cells in zip(self.columns, *self.rows, strict=True)
            if column.form != "bar"
        ]

        def taken() -> int:
            return sum(max(map(_width, (column.title, *map(str, cells)))) + apart for column, cells in kept) - apart

        while taken() > width and any(column.drop for column, _ in kept):
            kept.remove(max(kept, key=lambda entry: entry[0].drop))
        table = RichTable(box=None, padding=(0, apart, 0, 0), header_style=header, show_edge=False, pad_edge=False)
        for column, _ in kept:
            side: Any = "right" if column.form.startswith(">") else "left"
            table.add_column(column.title, justify=side, no_wrap=True, min_width=_width(column.title))
        shown = [cells for _, cells in kept]
        bar, room = self.columns[-1], min(_LONGEST_BAR, width - taken() - 2)
        if bar.form == "bar" and room >= max(_SHORTEST_BAR, len(bar.title)):
            gap = " " * (2 - apart)
            table.add_column(gap + bar.title, no_wrap=True)
            shown.append([Text(gap + "█" * round(room * row[-1][0]), style=row[-1][1]) for row in self.rows])
        for row in zip(*shown, strict=True):
            table.add_row(*row)
        return table


def _written(value: Any, form: str) -> str:
    return "" if value is None or value != value else plain(format(value, form))


def _width(text: str) -> int:
    return max(map(cell_len, text.split("\n")))
