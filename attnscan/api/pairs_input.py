"""The pairs that callers give: a sentence, files, objects, or None for those attnscan ships."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnscan.errors import InputError, OptionError, PairsError
from attnscan.inputs import read as files
from attnscan.inputs.annotations import Alignments, is_links
from attnscan.inputs.files import STDIN, format_of, scheme_of
from attnscan.inputs.links import read_links
from attnscan.inputs.records import FileReading, OnBad, good_records, objects_in
from attnscan.inputs.report import FileReport
from attnscan.inputs.sentence import Pair, Record, Text
from attnscan.scan.options import OnProgress, note, warn
from attnscan.text import plain

Links = str | os.PathLike[str] | Sequence[str] | None
"""Gold links such as "0-0 1-2", a line for each pair, or the file of these lines.

A text of links is links; any other text, and every `Path`, names a file."""
_MAX_NOTED = 3  # bad records that are noted; the others are only counted


class Files(tuple[str, ...]):
    """Names of files, whatever they look like."""


@dataclass
class PairsInput:
    """Pairs that can be read, in one pass or several; each bad record is noted once."""

    begin: Callable[[OnBad | None], Iterator[Record]]
    """Begins a pass, and hands bad records to a function, or raises them."""
    skip_bad: bool = False
    on_bad: OnBad | None = None
    """Takes bad records that are skipped; without one, the first are noted."""
    how_many: Callable[[], int | None] = lambda: None
    has_ids: bool = False
    """Whether a column of ids was named, which tell pairs apart."""
    is_stream: bool = False
    """Whether they come from an iterator or a pipe.

    Where more than one pass needs them, they are kept in memory.
    """
    single: Pair | None = None
    bad: int = 0
    _noted: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Record]:
        """Begin a pass over all. Raises: PairsError, InputError for a bad one not to be skipped."""
        return self.begin(self.skips)

    @property
    def skips(self) -> OnBad | None:
        """The function that counts a bad record and notes it once; None if one ends the run."""
        return self._skip if self.skip_bad else None

    def _skip(self, error: InputError) -> None:
        if str(error) in self._noted:
            return
        self._noted.add(str(error))
        self.bad += 1
        if self.on_bad is not None:
            self.on_bad(error)
        elif self.bad <= _MAX_NOTED:
            note(f"skipped: {plain(error.what)}")

    def ready(self, passes: int = 1) -> PairsInput:
        """Read as far as the first pair, so that no model is loaded in vain.

        A stream is read once for many passes.
        """
        if not self.is_stream:
            next(self.read(), None)
        elif passes > 1:
            records = list(self.read())
            self.begin = lambda _: iter(records)
        return self

    def counted_by(self, progress: OnProgress) -> OnProgress:
        """Report progress with the number of pairs as the total, where no total is known."""
        count = self.how_many()

        def step(doing: str, done: int | None, total: int | None) -> None:
            if done is not None and total is None:
                total = count
            progress(doing, done, total)

        return step

    def aligned(self, links: Links) -> PairsInput:
        """Link the words of the pairs.

        Raises: OptionError; PairsError for a file that cannot be read.
        """
        if links is None:
            return self
        alignments = read_alignments(links)

        def begin(skip: OnBad | None) -> Iterator[Record]:
            return alignments.linked(self.begin(skip), to_the_end=skip is None)

        single = None if self.single is None else alignments.link_single(self.single)
        return replace(self, begin=begin, single=single)

    def sources(self) -> PairsInput:
        """The sentences A alone, which the encoder of an encoder-decoder reads."""

        def begin(skip: OnBad | None) -> Iterator[Record]:
            for record in self.begin(skip):
                yield replace(record, pair=record.pair.source)

        return replace(self, begin=begin)


Pairs = str | os.PathLike[str] | Iterable[Any] | PairsInput | None
"""A file of pairs or several; or sentences, pairs of them, or rows with columns that hold these, as
`inputs/records.py` says; None for the pairs that attnscan ships."""
LinkRecords = str | os.PathLike[str] | Iterable[Any] | PairsInput | None
"""A file of links between words or several, or records as `inputs/links.py` says."""


def read_alignments(links: Links) -> Alignments:
    """Read gold links.

    Raises: OptionError for what is no text, or a text that may be links or a file; PairsError.
    """
    if isinstance(links, str) and is_links(links):
        if os.path.exists(links):  # noqa: PTH110  # too long a name is none
            raise OptionError(
                f"alignments is {links!r:.60}, which is a line of links, and a file here",
                "give the line in a list, or the file as a Path",
            )
        return Alignments("alignments", tuple(links.splitlines()))
    if isinstance(links, str | os.PathLike):
        return Alignments.read(os.fspath(links))
    return Alignments("alignments", tuple(list_texts("alignments", links or ())))


def list_texts(name: str, values: str | Iterable[str]) -> list[str]:
    """Make a list of several texts, or of a single one. Raises: OptionError for anything else."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        texts = [values]
    else:
        texts = list(values)
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"{name} has a {type(text).__name__} in it", "give a list of texts")
    return texts


def single_input(a: Any, b: Text | None = None) -> PairsInput:
    """One sentence, or two. Raises: InputError for what is no text."""
    pair = Pair(a, b)
    record = Record(pair, "the input")
    return PairsInput(lambda _: iter([record]), how_many=lambda: 1, single=pair)


def check_no_reading(reading: Mapping[str, Any], on_bad: OnBad | None = None) -> None:
    """Raises: OptionError if an option says how to read files, where none are read."""
    names = list(reading)
    if on_bad is not None:
        names.append("skip_bad")
    for name in names:
        raise OptionError(f"``{name}`` is for ``pairs``", "leave it out")


def pairs_input(
    pairs: Pairs,
    reading: Mapping[str, Any],
    *,
    on_bad: OnBad | None = None,
    id: str | int | None = None,
    labels: Iterable[str] | None = None,
    seed: int = 0,
) -> PairsInput:
    """Pairs that callers give, read by their options.

    "random" stands for random sequences, drawn by a `seed`. If `labels` are empty, a column `label`
    holds them.

    Raises: InputError if they hold none; OptionError for an unknown value.
    """
    if isinstance(pairs, PairsInput):
        return pairs
    classes = [] if labels is None else list_texts("labels", labels)
    has_label_column = labels is not None and not classes
    file_reading = _file_reading(reading, None if id is None else str(id), has_label_column)
    read = _begin_reading(pairs, file_reading, reading, classes, seed)
    skip_bad = bool(reading.get("skip_bad", False) or on_bad)
    return replace(read, skip_bad=skip_bad, on_bad=on_bad)


def _file_reading(reading: Mapping[str, Any], id: str | None, labelled: bool) -> FileReading:
    """How files are read, by the options that were given."""
    options = {name: value for name, value in reading.items() if name != "skip_bad"}
    columns = options.get("columns")
    if columns is not None:
        several = [columns] if isinstance(columns, str | int) else columns
        options["columns"] = tuple(map(str, several))
    return FileReading(**options, id=id, labelled=labelled)


def _begin_reading(
    pairs: Any,
    file_reading: FileReading,
    reading: Mapping[str, Any],
    classes: Sequence[str],
    seed: int,
) -> PairsInput:
    """Pairs of files, of objects, shipped ones or random ones."""
    paths = _paths_in(pairs)
    if pairs is None or paths == (files.RANDOM,):
        check_no_reading({name: reading[name] for name in reading if name != "skip_bad"})
    if pairs is None:
        return PairsInput(
            lambda _: files.shipped_pairs(), how_many=lambda: len(list(files.shipped_pairs()))
        )
    if paths == (files.RANDOM,):
        return PairsInput(
            lambda _: files.random_pairs(seed), how_many=lambda: files.RANDOM_SEQUENCES
        )
    if paths is None:
        return _pairs_of_objects(pairs, file_reading, classes)
    warn_once = cache(warn)  # however often they are read
    return PairsInput(
        lambda skip: files.read_pairs(paths, file_reading, skip, warn_once),
        how_many=lambda: files.about_how_many(paths),
        has_ids=file_reading.id is not None,
        is_stream=STDIN in paths or any(map(_is_pipe, paths)),
    )


def _pairs_of_objects(
    pairs: Iterable[Any], file_reading: FileReading, classes: Sequence[str]
) -> PairsInput:
    """Pairs of objects of Python, with their classes if there are any."""
    objects = objects_in(pairs, file_reading)

    def begin(skip: OnBad | None) -> Iterator[Record]:
        for record in objects.records(skip):
            row = record.place.row
            yield replace(record, label=classes[row - 1]) if row <= len(classes) else record

    return PairsInput(
        begin,
        how_many=lambda: objects.total,
        has_ids=file_reading.id is not None,
        is_stream=isinstance(objects.items, Iterator),
    )


def links_input(
    links: LinkRecords,
    *,
    skip_bad: bool = False,
    on_bad: OnBad | None = None,
    with_treebanks: bool = False,
) -> PairsInput:
    """Sentences or pairs with links between their words, of files or of records.

    With `with_treebanks`, files may also be treebanks. Raises: OptionError, PairsError.
    """
    if isinstance(links, PairsInput):
        return links
    paths = _paths_in(links)
    read = _links_of_records(links) if paths is None else _links_of_files(paths, with_treebanks)
    return replace(read, skip_bad=skip_bad or on_bad is not None, on_bad=on_bad)


def _links_of_files(paths: Sequence[str], with_treebanks: bool) -> PairsInput:
    warn_once = cache(warn)  # however often they are read
    return PairsInput(
        lambda skip: files.read_linked(paths, skip, warn_once, with_treebanks=with_treebanks),
        is_stream=STDIN in paths or any(map(_is_pipe, paths)),
    )


def _links_of_records(links: Any) -> PairsInput:
    """Links of records that a program has. Raises: OptionError."""
    if isinstance(links, Mapping) or not isinstance(links, Iterable):
        raise OptionError(
            f"links is of the class {type(links).__name__}",
            'give a file, or a list of records such as {"text": ..., "links": [["coref", 5, 1]]}',
        )
    warn_once = cache(warn)

    def begin(skip: OnBad | None) -> Iterator[Record]:
        placed = ((f"record {number}", record) for number, record in enumerate(links, 1))
        return good_records(read_links(placed, FileReport("links", warn_once)), skip)

    return PairsInput(begin, is_stream=isinstance(links, Iterator))


def holds_links(given: Any) -> bool:
    """Whether files may hold links, by their suffixes, or objects are records with links."""
    paths = _paths_in(given)
    if paths is not None:
        return any(format_of(path) in ("", ".jsonl", ".ndjson") for path in paths)
    return isinstance(given, list | tuple) and any(isinstance(item, Mapping) for item in given)


def _is_pipe(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113


def _paths_in(pairs: Any) -> tuple[str, ...] | None:
    """The names of files, if that is what callers give.

    Texts in a list are files if each has a suffix of one.
    """
    if isinstance(pairs, str | os.PathLike):
        return (os.fspath(pairs),)
    is_list = isinstance(pairs, list | tuple) and bool(pairs)
    if isinstance(pairs, Files) or (is_list and all(map(_names_file, pairs))):
        return tuple(map(os.fspath, pairs))
    return None


def _names_file(item: object) -> bool:
    if isinstance(item, Path):
        return True
    if not isinstance(item, str):
        return False
    try:
        return bool(scheme_of(item) or format_of(item))
    except PairsError:  # a suffix of another kind of files, or the end of a sentence
        return False
