"""The screen of `pairs`: how files are read, the first pairs, and bad records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.text import counted, plain

if TYPE_CHECKING:
    import pandas as pd

_FIRST = 5  # pairs that are shown
_MOST_BAD = 20  # bad records that are listed
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_MOST_COUNTED = 10**12  # tokenizers without a limit say 10**30


def pairs_view(frame: pd.DataFrame) -> Iterator[RenderableType]:
    """The files, one after the other, then what is in them."""
    for about in frame.attrs["files"]:
        yield Text(plain(about["file"]), style="bold")
        yield _facts(about)
        yield ""
    if len(frame):
        yield _first_pairs(frame)
        yield ""
    bad = frame.attrs["bad"]
    total = counted(len(frame), "pair")
    yield f"{total} and {counted(len(bad), 'bad record')}" if bad else f"{total}, no bad record"
    for line in bad[:_MOST_BAD]:
        yield Text(plain(line))
    if len(bad) > _MOST_BAD:
        yield Text(f"and {len(bad) - _MOST_BAD:,} more", style="dim")
    if "cut" in frame.attrs:
        yield _cut_line(frame)


def _facts(about: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _lines(about):
        table.add_row(Text(name, style="dim"), Text(plain(value)))
    return table


def _lines(about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is known of a file, by its names."""
    parts = [about["format"]]
    if about["encoding"]:
        parts.append(about["encoding"])
    if about["sheet"]:
        parts.append(f"sheet {about['sheet']!r}")
    if about["separator"]:
        mark = about["separator"]
        parts.append(f"separated by {_SEPARATORS.get(mark, repr(mark))}")
    if about["has_quotes"] is not None:
        owner = "the format" if about["has_quotes"] else "the text"
        parts.append(f"quotes belong to {owner}")
    yield "format", ", ".join(parts)
    if about["first_line"]:
        is_names = about["first_line"] == "names"
        yield "first line", "names of columns" if is_names else "data"
    columns = zip("AB", about["columns"], strict=False)
    listed = ", ".join(f"{side} is {name!r}" for side, name in columns)
    if listed:
        yield "columns", f"{listed} ({about['why']})"
    yield "pairs", f"{about['records']:,}"
    for note in about["notes"]:
        yield "note", note


def _first_pairs(frame: pd.DataFrame) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    table.add_column("row", justify="right")
    for side in ("A", "B"):
        table.add_column(side, overflow="fold", ratio=1)
    first = frame.head(_FIRST)
    rows = zip(first["row"], first["sentence_a"], first["sentence_b"], strict=True)
    for number, a, b in rows:
        table.add_row(str(number), Text(plain(a)), Text(plain(b or "")))
    return table


def _cut_line(frame: pd.DataFrame) -> str:
    longest = frame.attrs["longest"]
    model = plain(frame.attrs["model"])
    if longest > _MOST_COUNTED:
        return f"{model} reads inputs of any length"
    cut = f"{frame.attrs['cut']:,} of {counted(len(frame), 'input')}"
    return f"{cut} would be cut to the {longest:,} tokens that {model} reads"
