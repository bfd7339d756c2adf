"""Part of a file: some of its rows, one after another, for readers that share a large one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bookmark:
    """Where a row starts, and what a reader who came there from the file's start would know."""

    offset: int = 0
    """Bytes before it; in Parquet, row groups."""
    line: int = 0
    """Lines before it."""
    row: int = 0
    """Rows before it, bad ones counted."""
    quoted: bool | None = None
    """Of a TSV file: whether its cells are quoted; None where that was not to be seen yet, or need not be."""
    told: bool = False
    """Whether what speaks against that was told."""


@dataclass(frozen=True)
class Part:
    """The rows from one bookmark to where another part begins."""

    start: Bookmark = Bookmark()
    stop: int | None = None
    """A row that starts here or behind belongs to another part, counted as `Bookmark.offset` is; None for no end."""


WHOLE = Part()
"""All rows of a file."""
