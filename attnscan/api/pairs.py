"""Pairs that callers give, in files or of any kind, and what they want to be told while these are read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attnscan.api.arguments import columns_of, listed
from attnscan.errors import OptionError, PairsError
from attnscan.inputs.frames import objects_in, pair_of
from attnscan.inputs.read import FileReading, format_of, scheme_of
from attnscan.inputs.sentence import Pair, Text
from attnscan.run.engine import run
from attnscan.run.events import Note, PairScores, Progress, Result, Skipped
from attnscan.run.reading import FilePairs, ObjectPairs
from attnscan.run.requests import Rank, Request
from attnscan.scan.local import OnBad

if TYPE_CHECKING:
    import pandas as pd


T = TypeVar("T")


class Columns(Protocol):
    """A table of pandas, polars and others."""

    @property
    def columns(self) -> Any:
        """What its columns are called."""


Path = str | os.PathLike[str]
Objects = Iterable[Text | Sequence[Text | None] | Mapping[str, Any] | Columns] | Mapping[str, Iterable[Any]] | Columns
Pairs = Path | Sequence[Path] | Objects | None
"""A file of pairs or several; or sentences, pairs of them, or rows with columns that hold these, as
`inputs/frames.py` says; None for the pairs that attnscan ships."""
OnProgress = Callable[[str, int, int | None], None]
"""Told what runs now, how much of it is done, and how much there is, or None where that is not known."""
OnFrame = Callable[["pd.DataFrame"], None]


def pairs_of(
    pairs: Pairs,
    options: Mapping[str, Any],
    *,
    id: str | int | None = None,
    on_bad: OnBad | None = None,
    labels: Iterable[str] | None = None,
) -> FilePairs | ObjectPairs:
    """Pairs that callers give, read by their options. Without `labels`, if not None, a column `label` says them.

    Raises: InputError if they hold none; OptionError for a value that there is not.
    """
    classes = [] if labels is None else list(labels) if isinstance(labels, Iterator) else listed("labels", labels)
    keys = columns_of("id", id)
    if keys is not None and len(keys) != 1:
        raise OptionError(f"id names {len(keys)} columns", "name one")
    reading = FileReading(
        columns_of("columns", options["columns"]),
        options["header"],
        options["quoting"],
        options["encoding"],
        None if keys is None else keys[0],
        labelled=labels is not None and not classes,
    )
    skip_bad = bool(options["skip_bad"]) or on_bad is not None
    if (paths := _paths_in(pairs)) is not None:
        return FilePairs(paths, reading, skip_bad)
    return ObjectPairs(objects_in(pairs, reading), skip_bad, classes)


def input_of(
    a: Text | None,
    b: Text | None,
    pairs: Pairs,
    options: Mapping[str, Any],
    *,
    id: str | int | None = None,
    on_bad: OnBad | None = None,
) -> Pair | FilePairs | ObjectPairs:
    """A sentence, or two, or else many pairs.

    Raises: OptionError if they are given both; InputError for what is no text.
    """
    if a is None and b is None:
        return pairs_of(pairs, options, id=id, on_bad=on_bad)
    if pairs is not None:
        raise OptionError("a sentence and pairs= were both given", "give a sentence, or two, or pairs=, but not both")
    return pair_of(a, b)


def _paths_in(pairs: Any) -> tuple[str, ...] | None:
    """The names of files, if that is what callers give; texts in a list are files if each has a suffix of one."""
    if pairs is None:
        return ()
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


@dataclass(frozen=True)
class Callbacks:
    """What callers want to be told meanwhile. Raises: OptionError for what cannot be called."""

    on_bad: OnBad | None = None
    on_progress: OnProgress | None = None
    on_pairs: OnFrame | None = None

    def __post_init__(self) -> None:
        for name, function in vars(self).items():
            if function is not None and not callable(function):
                raise OptionError(f"{name} is not a function", f"give one that takes {_TAKE[name]}")

    def answer(self, request: Request, kind: type[T]) -> T:
        """The result of a request, of its class, told by these meanwhile. What they raise ends it, raised as it is.

        Raises: as `run`.
        """
        pairs = getattr(request, "pairs", None)
        known = cache(lambda: None if pairs is None else pairs.how_many())
        with closing(run(request)) as events:
            for event in events:
                match event:
                    case Progress(doing, int(done), total) if self.on_progress is not None:
                        self.on_progress(doing, done, known() if total is None else total)
                    case Skipped(error) if self.on_bad is not None:
                        self.on_bad(error)
                    case PairScores() if self.on_pairs is not None:
                        self.on_pairs(_frame(event, request))
                    case Note(text, True):
                        warnings.warn(text, stacklevel=2)
                    case Result(value):
                        assert isinstance(value, kind)
                        return value
        raise AssertionError("a run ends in a result")


_TAKE = {
    "on_bad": "an InputError",
    "on_progress": "what runs, how much is done, and how much there is, or None",
    "on_pairs": "a data frame",
}


def _frame(scores: PairScores, request: Request) -> pd.DataFrame:
    """Pairs' own scores as a table, with their ids if a column of these was named."""
    from attnscan.scan.per_pair import pair_frame

    assert isinstance(request, Rank)
    patterns, kind = [pattern.id for pattern in request.options.patterns], request.options.kind
    return pair_frame(scores.places, scores.sums, patterns, ids=request.pairs.has_ids(), kind=kind)
