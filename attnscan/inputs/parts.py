"""A large file as parts that are read side by side, and give the very rows that one reader would find.

In a text, the end of a line need not be that of a row, and how the cells of a TSV file are quoted may show late. So
where parts start is guessed; all are read through at once for where their rows end; and those that do not start where
the one before them ended are read through again from there. What one reader does is the only rule of what a row is,
and numbers of lines and rows come out as it counts. Parquet says where its row groups are.
Does not handle: packed files, JSON documents, Arrow, workbooks; they are one part.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO

from attnscan.errors import PairsError
from attnscan.inputs.columns import Reading
from attnscan.inputs.formats.part import Bookmark, Part
from attnscan.inputs.places.files import opened
from attnscan.inputs.places.names import PARQUET, TEXT, packing_in, shown, suffix_in
from attnscan.inputs.readers import end_of

PART_BYTES = 128 << 20
"""Of a file, what a part has at least."""
MOST_PARTS = 256
"""Of all files together, which feed any cluster; beyond that, parts are larger."""

_ROUNDS = 8  # of reading again; two are enough unless rows are as long as parts
_IN_LINES = tuple(suffix for suffix in TEXT if suffix != ".json")

Starts = tuple[Bookmark, ...]
"""Where the parts of a file start."""


@dataclass(frozen=True)
class Trial:
    """A part to read through."""

    part: Part
    guessed: bool = False
    """Whether it starts with the first line that begins in it, and not where it says."""


Outcome = tuple[Bookmark, Bookmark] | None
"""Where a part starts and ends, counted from its start; None if it cannot be read by itself."""


def can_be_cut(file: str) -> bool:
    """Whether a file of that name is of a format that is cut into parts."""
    return not packing_in(file) and suffix_in(file) in (*_IN_LINES, *PARQUET)


def parts_at(starts: Starts) -> list[Part]:
    """The parts that start there, each up to the next."""
    stops = [*(start.offset for start in starts[1:]), None]
    return [Part(start, stop) for start, stop in zip(starts, stops, strict=True)]


def starts_of(file: str, size: int, piece: int) -> Generator[list[Trial], Sequence[Outcome], Starts]:
    """Where parts of about `piece` bytes start in a file of `size` bytes.

    Asks for what `read_through` says of some trials, all of which can be had at once. Raises: PairsError.
    """
    if suffix_in(file) in PARQUET:
        from attnscan.inputs.formats.columnar import parquet_bookmarks

        with opened(file) as stream:
            return tuple(parquet_bookmarks(stream, shown(file), piece))
    stops = [*range(piece, size, piece), None]
    if len(stops) == 1:
        return (Bookmark(),)
    first, *others = pairwise((0, *stops[:-1]))
    (outcome,) = yield [Trial(Part(stop=first[1]))]  # alone: it may tell how the others are to be read
    if outcome is None:
        return (Bookmark(),)
    starts = [Bookmark(), outcome[1]]
    trials = [Trial(Part(_uncounted(offset, outcome[1].quoted), stop), guessed=True) for offset, stop in others]
    outcomes = list((yield trials))
    for _ in range(_ROUNDS):
        read = [outcome for outcome in outcomes if outcome is not None]
        if len(read) < len(outcomes):
            return (Bookmark(),)
        for start, end in read[len(starts) - 2 :]:
            if _place(start) != _place(starts[-1]):
                break
            starts.append(_counted_on(starts[-1], start, end))
        else:
            break
        begun, again = len(starts) - 2, {}
        before = starts[-1]
        for number, (start, end) in enumerate(read[begun:], begun):
            if _place(start) != _place(before):
                again[number] = Trial(Part(_uncounted(*_place(before)), others[number][1]))
            before = replace(end, quoted=before.quoted if end.quoted is None else end.quoted)
        for number, outcome in zip(again, (yield list(again.values())), strict=True):
            outcomes[number] = outcome
    return tuple(start for start, after in pairwise((*starts, Bookmark(size))) if start.offset < after.offset)


def read_through(file: str, reading: Reading, trial: Trial) -> Outcome:
    """What comes of a trial."""
    try:
        with opened(file) as stream:
            part = trial.part
            if trial.guessed:
                part = replace(part, start=replace(part.start, offset=_next_line(stream, part.start.offset)))
                stream.seek(0)
            return part.start, end_of(stream, shown(file), suffix_in(file), reading, part)
    except (PairsError, EOFError):  # whoever reads all of it tells why
        return None


def _next_line(stream: IO[bytes], offset: int) -> int:
    stream.seek(offset - 1)
    while (line := stream.readline(1 << 20)) and not line.endswith(b"\n"):
        pass
    return stream.tell()


def _place(start: Bookmark) -> tuple[int, bool | None]:
    """What a part's rows hang on."""
    return start.offset, start.quoted


def _uncounted(offset: int, quoted: bool | None) -> Bookmark:
    """A start whose lines and rows are counted from there, though as no first line is."""
    return Bookmark(offset, 1, 1, quoted)


def _counted_on(start: Bookmark, from_: Bookmark, to: Bookmark) -> Bookmark:
    """Where a part ends that was read through from elsewhere."""
    return Bookmark(
        to.offset,
        start.line + to.line - from_.line,
        start.row + to.row - from_.row,
        to.quoted,
        start.told or to.told,
    )
