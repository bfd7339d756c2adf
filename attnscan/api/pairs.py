"""Pairs that callers give, in files or of any kind; the command line gives files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnscan.errors import InputError, OptionError, PairsError
from attnscan.inputs import read as files
from attnscan.inputs.alignments import Alignments
from attnscan.inputs.files import STDIN, format_of, scheme_of
from attnscan.inputs.frames import objects_in
from attnscan.inputs.sentence import Pair, Record, Text
from attnscan.scan.options import OnProgress, note, warn

OnBad = Callable[[InputError], None]
Links = str | os.PathLike[str] | Sequence[str] | None
"""Gold links such as "0-0 1-2", a line for each pair, or the file of these lines."""
_TOLD = 3  # bad records that are told of; the others are counted


class Files(tuple[str, ...]):
    """Names of files, whatever they look like."""


@dataclass
class PairsInput:
    """Pairs that can be read, in one pass or several; each bad record is told once."""

    begin: Callable[[OnBad | None], Iterator[Record]]
    """Begins a pass, and hands bad records to a function, or raises them."""
    skip_bad: bool = False
    on_bad: OnBad | None = None
    """Takes bad records that are skipped; without one, the first are noted."""
    how_many: Callable[[], int | None] = lambda: None
    has_ids: bool = False
    """Whether a column of ids was named, which tell pairs apart."""
    is_stream: bool = False
    """Whether they come from an iterator or a pipe, and are kept in memory where more than one pass needs them."""
    single: Pair | None = None
    bad: int = 0
    _told: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Record]:
        """Begin a pass over all. Raises: PairsError, InputError for a bad one that is not to be skipped."""
        return self.begin(self.skips)

    @property
    def skips(self) -> OnBad | None:
        """What a bad record is handed to, which counts it and tells of it once; None if it ends the run."""
        return self._skip if self.skip_bad else None

    def _skip(self, error: InputError) -> None:
        if str(error) not in self._told:
            self._told.add(str(error))
            self.bad += 1
            if self.on_bad is not None:
                self.on_bad(error)
            elif self.bad <= _TOLD:
                note(f"skipped: {error.line}")

    def ready(self, passes: int = 1) -> PairsInput:
        """The pairs, read as far as the first, so that no model is loaded in vain; a stream once for many passes."""
        if not self.is_stream:
            next(self.read(), None)
        elif passes > 1:
            records = list(self.read())
            self.begin = lambda _: iter(records)
        return self

    def counted_by(self, progress: OnProgress) -> OnProgress:
        """What tells of progress, with how many pairs there are where the work does not know."""
        known = self.how_many()
        return lambda doing, done, total: progress(doing, done, known if done is not None and total is None else total)

    def aligned(self, links: Links) -> PairsInput:
        """Pairs whose words are linked. Raises: OptionError; PairsError for a file that cannot be read."""
        if links is None:
            return self
        known = alignments_of(links)
        linked = replace(self, begin=lambda skip: known.linked(self.begin(skip), to_the_end=skip is None))
        return linked if self.single is None else replace(linked, single=known.of_one(self.single))


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


def input_of(a: Text | None, b: Text | None, pairs: Pairs, reading: Mapping[str, Any], **how: Any) -> PairsInput:
    """A sentence, or two, or else many pairs, as `pairs_input` takes them.

    Raises: OptionError if they are given both, or how to read pairs; InputError for what is no text.
    """
    if a is None and b is None:
        return pairs_input(pairs, reading, **how)
    if pairs is not None:
        raise OptionError("a sentence and --pairs were both given", "give a sentence, or two, or --pairs, but not both")
    check_no_reading(reading, how["on_bad"])
    single = Pair(a, b)  # type: ignore[arg-type]
    return PairsInput(lambda _: iter([Record(single, "the input")]), how_many=lambda: 1, single=single)


def check_no_reading(reading: Mapping[str, Any], on_bad: OnBad | None = None) -> None:
    """Raises: OptionError if an option says how to read files, where none are read."""
    for name in (*reading, *(["skip_bad"] if on_bad is not None else [])):
        raise OptionError(f"--{name.replace('_', '-')} is for --pairs", "leave it out")


def pairs_input(
    pairs: Pairs,
    reading: Mapping[str, Any],
    *,
    on_bad: OnBad | None = None,
    id: str | int | None = None,
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
    how: dict[str, Any] = {"skip_bad": bool(reading.pop("skip_bad", False) or on_bad), "on_bad": on_bad}
    if (columns := reading.get("columns")) is not None:
        reading["columns"] = tuple(map(str, [columns] if isinstance(columns, str | int) else columns))
    classes = [] if labels is None else listed("labels", labels)
    named = None if id is None else str(id)
    file_reading = files.FileReading(**reading, id=named, labelled=labels is not None and not classes)
    if pairs is None:
        return PairsInput(lambda _: files.shipped_pairs(), how_many=lambda: len(list(files.shipped_pairs())), **how)
    if (paths := _paths_in(pairs)) == (files.RANDOM,):
        check_no_reading(reading)
        return PairsInput(lambda _: files.random_pairs(seed), how_many=lambda: files.RANDOM_SEQUENCES, **how)
    how["has_ids"] = named is not None
    if paths is not None:
        how |= {
            "is_stream": STDIN in paths or any(map(_is_pipe, paths)),
            "how_many": lambda: files.about_how_many(paths),
        }
        told = cache(warn)  # once, however often they are read
        return PairsInput(lambda skip: files.read_pairs(paths, file_reading, skip, told), **how)
    objects = objects_in(pairs, file_reading)

    def begin(skip: OnBad | None) -> Iterator[Record]:
        for record in objects.records(skip):
            known = record.place.row <= len(classes)
            yield replace(record, label=classes[record.place.row - 1]) if known else record

    how |= {"is_stream": isinstance(objects.items, Iterator), "how_many": lambda: objects.total}
    return PairsInput(begin, **how)


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
