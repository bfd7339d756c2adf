"""How a file of pairs is read: what its readers find out about it, for people to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

OnNote = Callable[[str], None]
"""Is told how a file is read where its looks decided."""


def ignore_note(_: str) -> None:
    """Take a note that nobody reads."""


@dataclass
class FileReport:
    """What is known of a file so far: readers fill it in as they read."""

    file: str
    """As messages name it."""
    on_note: OnNote = ignore_note
    format: str = ""
    encoding: str = ""
    """Empty for tables, which have none."""
    separator: str = ""
    """The character between cells; empty where there is none."""
    has_quotes: bool | None = None
    """Whether quotes around cells belong to the format; None where that means nothing."""
    first_line: str = ""
    """What the first line of a table is: `names` or `data`; empty for other formats."""
    sheet: str = ""
    columns: tuple[str, ...] = ()
    """The names, or numbers, of the columns that hold sentences."""
    why: str = ""
    """Why these."""
    records: int = 0
    """How many records a file of links has."""
    links: Counter[str] = field(default_factory=Counter)
    """How many links a file has of each relation."""
    notes: list[str] = field(default_factory=list)
    """What was guessed, and which option says otherwise."""

    def note(self, text: str) -> None:
        """Keep a note on the file, and tell it."""
        self.notes.append(text)
        self.on_note(f"{self.file}: {text}")


_reports: ContextVar[list[FileReport] | None] = ContextVar("reports", default=None)


@contextmanager
def collect_reports() -> Iterator[list[FileReport]]:
    """Collect the reports of all files whose reading begins meanwhile, in order."""
    reports: list[FileReport] = []
    token = _reports.set(reports)
    try:
        yield reports
    finally:
        _reports.reset(token)


def collected() -> list[FileReport]:
    """The list to which reports of files go: that of `collect_reports`, if there is one."""
    reports = _reports.get()
    return [] if reports is None else reports
