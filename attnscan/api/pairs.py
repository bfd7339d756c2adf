"""Pairs that callers give, in files or of any kind; the command line gives files, and lines of standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

from attnscan.api.arguments import listed
from attnscan.errors import InputError, OptionError, PairsError
from attnscan.inputs.alignments import Alignments
from attnscan.inputs.files import STDIN, format_of, scheme_of
from attnscan.inputs.frames import objects_in, pair_of
from attnscan.inputs.read import (
    RANDOM,
    RANDOM_SEQUENCES,
    FileReading,
    about_how_many,
    lines_of_stdin,
    random_pairs,
    read_pairs,
    shipped_pairs,
)
from attnscan.inputs.sentence import Pair, Record, Text
from attnscan.scan.options import OnProgress, warn


class Columns(Protocol):
    """A table of pandas, polars and others."""

    @property
    def columns(self) -> Any:
        """What its columns are called."""


class Files(tuple[str, ...]):
    """Names of files, whatever they look like."""


OnBad = Callable[[InputError], None]
Path = str | os.PathLike[str]
Links = str | os.PathLike[str] | Sequence[str] | None
"""Gold links such as "0-0 1-2", a line for each pair, or the file of these lines."""
Objects = Iterable[Text | Sequence[Text | None] | Mapping[str, Any] | Columns] | Mapping[str, Iterable[Any]] | Columns


@dataclass
class PairsInput:
    """Pairs that can be read, and what was told of them; each bad record is told once, however often they are read."""

    begin: Callable[[OnBad | None], Iterator[Record]]
    """Begins to read them, and hands bad records to a function, or raises them."""
    on_bad: OnBad | None = None
    """Takes bad records, which are then skipped."""
    how_many: Callable[[], int | None] = lambda: None
    """About how many there are; None where that cannot be told cheaply."""
    has_ids: bool = False
    """Whether a column of ids was named, which tell pairs apart."""
    once: str = ""
    """What can be read only once, if they are such."""
    single: Pair | None = None
    """The pair, if it is a single input."""
    first: bool = False
    """Whether the first record is read before a model is loaded, so that it is not loaded in vain."""
    hold: Callable[[], None] | None = None
    """Keeps those that can be read only once in memory, so that they can be read again."""
    changes: tuple[Callable[[Iterator[Record]], Iterator[Record]], ...] = ()
    """What is done to every pass."""
    bad: int = 0
    """How many records were skipped."""
    _told: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Record]:
        """Begin a pass over all. Raises: PairsError, InputError for a bad one that is not to be skipped."""
        records = self.begin(self.skips)
        for change in self.changes:
            records = change(records)
        return records

    @property
    def skips(self) -> OnBad | None:
        """What a bad record is handed to, which counts it and tells of it once; None if it ends the run."""
        return None if self.on_bad is None else self._skip

    def _skip(self, error: InputError) -> None:
        if str(error) not in self._told and self.on_bad is not None:
            self._told.add(str(error))
            self.bad += 1
            self.on_bad(error)

    def ready(self, passes: int = 1, remedy: str = "name a file") -> PairsInput:
        """Pairs that can be read so often, checked as far as is quick.

        Raises: PairsError if these cannot, with a `remedy` that would do; as `read`.
        """
        if passes > 1 and self.hold is not None:
            self.hold()
        elif passes > 1 and self.once:
            raise PairsError(f"{self.once} can be read only once, and this takes {passes} passes", remedy)
        if self.first:
            next(self.read(), None)
        return self

    def counted_by(self, progress: OnProgress | None) -> OnProgress | None:
        """What tells of progress, with how many pairs there are where the work does not know."""
        if progress is None:
            return None
        known, tell = cache(self.how_many), progress

        def step(doing: str, done: int | None, total: int | None) -> None:
            tell(doing, done, known() if total is None and done is not None else total)

        return step

    def sources(self) -> PairsInput:
        """The sources of pairs, which an encoder reads alone."""

        def alone(records: Iterator[Record]) -> Iterator[Record]:
            return (replace(record, pair=record.pair.source) for record in records)

        return replace(self, changes=(*self.changes, alone))

    def aligned(self, links: Links) -> PairsInput:
        """Pairs whose words are linked. Raises: OptionError; PairsError for a file that cannot be read."""
        if links is None:
            return self
        if self.single is not None:
            return one_input(alignments_of(links).of_one(self.single))
        known = None if isinstance(links, str | os.PathLike) else alignments_of(links)

        def linked(records: Iterator[Record]) -> Iterator[Record]:
            return (known or alignments_of(links)).linked(records, to_the_end=self.on_bad is None)

        return replace(self, changes=(*self.changes, linked), first=not self.once)


Pairs = Path | Sequence[Path] | Objects | PairsInput | None
"""A file of pairs or several; or sentences, pairs of them, or rows with columns that hold these, as
`inputs/frames.py` says; None for the pairs that attnscan ships."""


def alignments_of(links: Links) -> Alignments:
    """Gold links, read. Raises: OptionError for what is none; PairsError."""
    if isinstance(links, str | os.PathLike):
        return Alignments.read(os.fspath(links))
    return Alignments("alignments", tuple(listed("alignments", links or ())))


def linked(pair: Pair, links: Links) -> Pair:
    """A pair with the links of its words, where these are given. Raises: as `alignments_of`."""
    return pair if links is None else alignments_of(links).of_one(pair)


def one_input(pair: Pair) -> PairsInput:
    """A sentence or a pair, alone."""
    return PairsInput(lambda _: iter([Record(pair, "the input")]), how_many=lambda: 1, single=pair)


def lines_input(on_bad: OnBad | None = None) -> PairsInput:
    """Standard input, an input a line, read as the lines come."""
    return PairsInput(lambda skip: lines_of_stdin(skip, warn), on_bad, once="standard input")


def pairs_input(
    pairs: Pairs,
    reading: Mapping[str, Any] | None = None,
    *,
    id: str | int | None = None,
    on_bad: OnBad | None = None,
    labels: Iterable[str] | None = None,
    seed: int = 0,
) -> PairsInput:
    """Pairs that callers give, read by their options; "random" stands for random sequences, drawn by a `seed`.

    With `labels` that are empty, a column `label` says them.

    Raises: InputError if they hold none; OptionError for a value that there is not.
    """
    reading = dict(reading or {})
    if isinstance(pairs, PairsInput):
        check_no_reading(reading)
        return pairs
    if reading.pop("skip_bad", False) and on_bad is None:
        on_bad = _ignore
    if (columns := reading.get("columns")) is not None:
        several = [columns] if isinstance(columns, str | int) else columns
        reading["columns"] = tuple(str(column) if isinstance(column, int) else column for column in several)
    classes = [] if labels is None else listed("labels", labels)
    how = FileReading(**reading, id=None if id is None else str(id), labelled=labels is not None and not classes)
    paths = _paths_in(pairs)
    if paths == (RANDOM,):
        if reading:
            raise OptionError(f"--{next(iter(reading)).replace('_', '-')} is for files", "leave it out")
        return PairsInput(lambda _: random_pairs(seed), on_bad, lambda: RANDOM_SEQUENCES)
    if paths is not None:
        return _files_input(paths, how, on_bad)
    objects = objects_in(pairs, how)

    def begin(skip: OnBad | None) -> Iterator[Record]:
        for record in objects.records(skip):
            known = record.place.row <= len(classes)
            yield replace(record, label=classes[record.place.row - 1]) if known else record

    def hold() -> None:
        nonlocal objects
        objects = objects.held()

    return PairsInput(begin, on_bad, lambda: objects.total, has_ids=how.id is not None, hold=hold)


def _files_input(paths: tuple[str, ...], reading: FileReading, on_bad: OnBad | None) -> PairsInput:
    if not paths:
        return PairsInput(lambda _: shipped_pairs(), on_bad, lambda: about_how_many(()))
    note = cache(warn)  # once, however often they are read
    once = next((path for path in paths if path == STDIN or _is_no_file(path)), "")
    return PairsInput(
        lambda skip: read_pairs(paths, reading, skip, note),
        on_bad,
        lambda: about_how_many(paths),
        has_ids=reading.id is not None,
        once="standard input" if once == STDIN else once,
        first=os.path.isfile(paths[0]),  # noqa: PTH113 (a name may be too long for a file)
    )


def check_no_reading(reading: Mapping[str, Any], on_bad: OnBad | None = None) -> None:
    """Raises: OptionError if an option says how to read files, where none are read."""
    for name in (*reading, *(["skip_bad"] if on_bad is not None else [])):
        flag = "no-header" if name == "header" and not reading[name] else name.replace("_", "-")
        remedy = "leave it out; a line of standard input has A and B with a tab between"
        raise OptionError(f"--{flag} is for --pairs", remedy)


def _ignore(_: InputError) -> None:
    """Skip a bad record."""


def input_of(
    a: Text | None,
    b: Text | None,
    pairs: Pairs,
    reading: Mapping[str, Any],
    *,
    on_bad: OnBad | None = None,
    seed: int = 0,
) -> PairsInput:
    """A sentence, or two, or else many pairs.

    Raises: OptionError if they are given both; InputError for what is no text.
    """
    if a is None and b is None:
        return pairs_input(pairs, reading, on_bad=on_bad, seed=seed)
    if pairs is not None:
        raise OptionError("a sentence and --pairs were both given", "give a sentence, or two, or --pairs, but not both")
    check_no_reading(reading, on_bad)
    return one_input(pair_of(a, b))


def _paths_in(pairs: Any) -> tuple[str, ...] | None:
    """The names of files, if that is what callers give; texts in a list are files if each has a suffix of one."""
    if pairs is None or isinstance(pairs, Files):
        return tuple(pairs or ())
    if isinstance(pairs, str | os.PathLike):
        return (os.fspath(pairs),)
    if isinstance(pairs, list | tuple) and pairs and all(map(_names_file, pairs)):
        return tuple(map(os.fspath, pairs))
    return None


def _names_file(item: object) -> bool:
    if not isinstance(item, str):
        return isinstance(item, os.PathLike)
    try:
        return bool(scheme_of(item) or format_of(item))
    except PairsError:  # a suffix of another kind of files, or the end of a sentence
        return False


def _is_no_file(path: str) -> bool:
    """Whether it is there and is neither a file nor a directory; a name that is too long for one is not there."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113
