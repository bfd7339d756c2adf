"""Pairs that callers give, in files or of any kind; the command line gives files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnscan.errors import InputError, OptionError, PairsError
from attnscan.inputs.alignments import Alignments
from attnscan.inputs.files import STDIN, format_of, scheme_of
from attnscan.inputs.frames import objects_in, pair_of
from attnscan.inputs.read import (
    RANDOM,
    RANDOM_SEQUENCES,
    FileReading,
    about_how_many,
    random_pairs,
    read_pairs,
    shipped_pairs,
)
from attnscan.inputs.sentence import Pair, Record, Text
from attnscan.scan.options import OnProgress, warn


class Files(tuple[str, ...]):
    """Names of files, whatever they look like."""


OnBad = Callable[[InputError], None]
Links = str | os.PathLike[str] | Sequence[str] | None
"""Gold links such as "0-0 1-2", a line for each pair, or the file of these lines."""


@dataclass
class PairsInput:
    """Pairs that can be read, in one pass or several; each bad record is told once."""

    begin: Callable[[OnBad | None], Iterator[Record]]
    """Begins a pass, and hands bad records to a function, or raises them."""
    on_bad: OnBad | None = None
    """Takes bad records, which are then skipped."""
    how_many: Callable[[], int | None] = lambda: None
    """About how many there are; None where that cannot be told cheaply."""
    has_ids: bool = False
    """Whether a column of ids was named, which tell pairs apart."""
    is_file: bool = False
    """Whether the first record can be read before a model is loaded, so that it is not loaded in vain."""
    is_stream: bool = False
    """Whether they come from an iterator or a pipe, and are kept in memory where more than one pass needs them."""
    single: Pair | None = None
    """The pair, if it is a single input."""
    bad: int = 0
    """How many records were skipped."""
    _told: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Record]:
        """Begin a pass over all. Raises: PairsError, InputError for a bad one that is not to be skipped."""
        return self.begin(self.skips)

    @property
    def skips(self) -> OnBad | None:
        """What a bad record is handed to, which counts it and tells of it once; None if it ends the run."""
        return None if self.on_bad is None else self._skip

    def _skip(self, error: InputError) -> None:
        if str(error) not in self._told and self.on_bad is not None:
            self._told.add(str(error))
            self.bad += 1
            self.on_bad(error)

    def ready(self, passes: int = 1) -> PairsInput:
        """The pairs, checked as far as is quick, for so many passes. Raises: as `read`."""
        if passes > 1 and self.is_stream:
            records = list(self.read())
            self.begin = lambda _: iter(records)
        elif self.is_file:
            next(self.read(), None)
        return self

    def counted_by(self, progress: OnProgress | None) -> OnProgress | None:
        """What tells of progress, with how many pairs there are where the work does not know."""
        if progress is None:
            return None
        known = self.how_many()
        return lambda doing, done, total: progress(doing, done, known if done is not None and total is None else total)

    def sources(self) -> PairsInput:
        """The sources of pairs, which an encoder reads alone."""

        def alone(skip: OnBad | None) -> Iterator[Record]:
            return (replace(record, pair=record.pair.source) for record in self.begin(skip))

        return replace(self, begin=alone)

    def aligned(self, links: Links) -> PairsInput:
        """Pairs whose words are linked. Raises: OptionError; PairsError for a file that cannot be read."""
        if links is None:
            return self
        known = alignments_of(links)
        if self.single is not None:
            return one_input(known.of_one(self.single))
        return replace(self, begin=lambda skip: known.linked(self.begin(skip), to_the_end=skip is None))


Pairs = str | os.PathLike[str] | Iterable[Any] | PairsInput | None
"""A file of pairs or several; or sentences, pairs of them, or rows with columns that hold these, as
`inputs/frames.py` says; None for the pairs that attnscan ships."""


def alignments_of(links: Links) -> Alignments:
    """Gold links, read. Raises: OptionError for what is none; PairsError."""
    if isinstance(links, str | os.PathLike):
        return Alignments.read(os.fspath(links))
    return Alignments("alignments", tuple(listed("alignments", links or ())))


def listed(what: str, values: str | Iterable[str]) -> list[str]:
    """Several texts, or one that stands alone. Raises: OptionError for anything else."""
    several = [values] if isinstance(values, str) else list(values) if isinstance(values, Iterable) else [values]
    if others := [value for value in several if not isinstance(value, str)]:
        raise OptionError(f"{what} has a {type(others[0]).__name__} in it", "give a list of texts")
    return several


def one_input(pair: Pair) -> PairsInput:
    """A sentence or a pair, alone."""
    return PairsInput(lambda _: iter([Record(pair, "the input")]), how_many=lambda: 1, single=pair)


def input_of(a: Text | None, b: Text | None, pairs: Pairs, reading: Mapping[str, Any], **how: Any) -> PairsInput:
    """A sentence, or two, or else many pairs, as `pairs_input` takes them.

    Raises: OptionError if they are given both; InputError for what is no text.
    """
    if a is None and b is None:
        return pairs_input(pairs, reading, **how)
    if pairs is not None:
        raise OptionError("a sentence and --pairs were both given", "give a sentence, or two, or --pairs, but not both")
    check_no_reading(reading, how.get("on_bad"))
    return one_input(pair_of(a, b))


def check_no_reading(reading: Mapping[str, Any], on_bad: OnBad | None = None) -> None:
    """Raises: OptionError if an option says how to read files, where none are read."""
    for name in (*reading, *(["skip_bad"] if on_bad is not None else [])):
        raise OptionError(f"--{name.replace('_', '-')} is for --pairs", "leave it out")


def pairs_input(
    pairs: Pairs,
    reading: Mapping[str, Any],
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
    if isinstance(pairs, PairsInput):
        return pairs
    reading = dict(reading)
    if reading.pop("skip_bad", False) and on_bad is None:
        on_bad = lambda _: None  # noqa: E731
    if (columns := reading.get("columns")) is not None:
        reading["columns"] = tuple(map(str, [columns] if isinstance(columns, str | int) else columns))
    classes = [] if labels is None else listed("labels", labels)
    how = FileReading(**reading, id=None if id is None else str(id), labelled=labels is not None and not classes)
    if pairs is None:
        return PairsInput(lambda _: shipped_pairs(), on_bad, lambda: about_how_many(()))
    if (paths := _paths_in(pairs)) == (RANDOM,):
        return PairsInput(lambda _: random_pairs(seed), on_bad, lambda: RANDOM_SEQUENCES)
    if paths is not None:
        return _files_input(paths, how, on_bad)
    objects = objects_in(pairs, how)

    def begin(skip: OnBad | None) -> Iterator[Record]:
        for record in objects.records(skip):
            known = record.place.row <= len(classes)
            yield replace(record, label=classes[record.place.row - 1]) if known else record

    is_stream = isinstance(objects.items, Iterator)
    return PairsInput(begin, on_bad, lambda: objects.total, has_ids=how.id is not None, is_stream=is_stream)


def _files_input(paths: tuple[str, ...], reading: FileReading, on_bad: OnBad | None) -> PairsInput:
    note = cache(warn)  # once, however often they are read
    is_stream = any(path == STDIN or _is_pipe(path) for path in paths)
    return PairsInput(
        lambda skip: read_pairs(paths, reading, skip, note),
        on_bad,
        lambda: about_how_many(paths),
        has_ids=reading.id is not None,
        is_file=not is_stream,
        is_stream=is_stream,
    )


def _is_pipe(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113


def _paths_in(pairs: Any) -> tuple[str, ...] | None:
    """The names of files, if that is what callers give; texts in a list are files if each has a suffix of one."""
    if isinstance(pairs, str | os.PathLike):
        return (os.fspath(pairs),)
    if isinstance(pairs, Files) or (isinstance(pairs, list | tuple) and pairs and all(map(_names_file, pairs))):
        return tuple(map(os.fspath, pairs))
    return None


def _names_file(item: object) -> bool:
    try:
        return isinstance(item, Path) or (isinstance(item, str) and bool(scheme_of(item) or format_of(item)))
    except PairsError:  # a suffix of another kind of files, or the end of a sentence
        return False
