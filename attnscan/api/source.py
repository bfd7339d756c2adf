"""Pairs that callers give, of any kind, with what they want to be told meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from attnscan.api.given import columns_of, listed
from attnscan.errors import OptionError
from attnscan.inputs.columns import Reading
from attnscan.inputs.objects import objects_in
from attnscan.run.engine import run
from attnscan.run.events import Interrupted, Note, PairScores, Progress, Result, Skipped
from attnscan.run.reading import ObjectPairs
from attnscan.run.requests import Rank, Request
from attnscan.scan.stream import OnBad

if TYPE_CHECKING:
    import pandas as pd


class Columns(Protocol):
    """A table of pandas, polars and others."""

    @property
    def columns(self) -> Any:
        """What its columns are called."""


Pairs = Iterable[str | Sequence[str | None] | Mapping[str, Any] | Columns] | Mapping[str, Iterable[Any]] | Columns
"""Sentences, pairs of them, or rows with columns that hold these; `inputs/objects.py` says which kinds there are."""
OnProgress = Callable[[str, int, int | None], None]
"""Told what runs now, how much of it is done, and how much there is, or None where that is not known."""
OnFrame = Callable[["pd.DataFrame"], None]


def source_of(
    pairs: Pairs,
    columns: Sequence[str | int] | str | int | None = None,
    id: str | int | None = None,
    *,
    skip_bad: bool = False,
    labels: Iterable[str] | None = None,
) -> ObjectPairs:
    """Pairs that callers give. Without `labels`, where these are not None, a column `label` says them.

    Raises: InputError if they hold none; OptionError for a value that there is not.
    """
    classes = [] if labels is None else list(labels) if isinstance(labels, Iterator) else listed("labels", labels)
    objects = objects_in(pairs, reading_of(columns, id, labelled=labels is not None and not classes))
    return ObjectPairs(objects, skip_bad, classes)


def reading_of(
    columns: Sequence[str | int] | str | int | None, id: str | int | None, *, labelled: bool = False
) -> Reading:
    """Which columns are read. Raises: OptionError, PairsError."""
    keys = columns_of("id", id)
    if keys is not None and len(keys) != 1:
        raise OptionError(f"id names {len(keys)} columns", "name one")
    return Reading(columns_of("columns", columns), id=None if keys is None else keys[0], labelled=labelled)


@dataclass(frozen=True)
class Callbacks:
    """What callers want to be told meanwhile. Raises: OptionError for what cannot be called."""

    on_bad: OnBad | None = None
    on_progress: OnProgress | None = None
    on_pairs: OnFrame | None = None

    def __post_init__(self) -> None:
        check_callables(**vars(self))

    def answer(self, request: Request) -> Any:
        """The result of a request, told by these while it is made. What they raise ends it, and is raised as it is.

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
                    case Interrupted(_, cause):
                        raise cause
                    case Result(value):
                        return value
        raise AssertionError("a run ends in a result")


def _frame(scores: PairScores, request: Request) -> pd.DataFrame:
    """Pairs' own scores as a table, with their ids if a column of these was named."""
    from attnscan.scan.per_pair import pair_frame

    assert isinstance(request, Rank)
    patterns = [pattern.id for pattern in request.options.patterns]
    return pair_frame(scores.places, scores.sums, patterns, ids=request.pairs.ids)


_TAKE = {
    "on_bad": "an InputError",
    "on_progress": "what runs, how much is done, and how much there is, or None",
    "on_pairs": "a data frame",
}


def check_callables(**functions: object) -> None:
    """Raises: OptionError for what cannot be called."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise OptionError(f"{name} is no function", f"give one that takes {_TAKE[name]}")
