"""Pairs that callers give, of any kind, with what they want to be told meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from attnscan.api.given import columns_of, listed
from attnscan.errors import InputError, OptionError
from attnscan.inputs.columns import Reading
from attnscan.inputs.objects import Objects, objects_in
from attnscan.inputs.pairs import Record
from attnscan.results.terms import OnStep
from attnscan.scan.stream import OnBad, OnBatch


class Columns(Protocol):
    """A table of pandas, polars and others."""

    @property
    def columns(self) -> Any:
        """What its columns are called."""


Pairs = Iterable[str | Sequence[str | None] | Mapping[str, Any] | Columns] | Mapping[str, Iterable[Any]] | Columns
"""Sentences, pairs of them, or rows with columns that hold these; `inputs/objects.py` says which kinds there are."""
OnProgress = Callable[[str, int, int | None], None]
"""Told what runs now, how much of it is done, and how much there is, or None where that is not known."""


@dataclass(frozen=True)
class Source:
    """Pairs that can be read, and what is called meanwhile."""

    objects: Objects
    on_bad: OnBad | None = None
    on_step: OnStep | None = None
    classes: Sequence[str] = ()
    """Which class each pair is of, as far as they go."""

    def read(self) -> Iterator[Record]:
        """The pairs with their places, read one by one.

        Raises: InputError for one that is bad, unless that is handed on.
        """
        for record in self.objects.records(self.on_bad):
            known = record.place.row <= len(self.classes)
            yield replace(record, label=self.classes[record.place.row - 1]) if known else record

    def on_batch(self, doing: str) -> OnBatch | None:
        """What is told how many pairs are done."""
        return None if self.on_step is None else partial(self.on_step, doing)

    def held(self) -> Source:
        """The same, to be read several times: what can be read only once is held in memory, and told of once."""
        told: set[str] = set()

        def tell_once(error: InputError) -> None:
            if self.on_bad is not None and str(error) not in told:
                told.add(str(error))
                self.on_bad(error)

        return replace(self, objects=self.objects.held(), on_bad=self.on_bad and tell_once)


def source_of(
    pairs: Pairs,
    columns: Sequence[str | int] | str | int | None = None,
    id: str | int | None = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    labels: Iterable[str] | None = None,
) -> Source:
    """Pairs that callers give. Without `labels`, where these are not None, a column `label` says them.

    Raises: InputError if they hold none; OptionError for a value that there is not.
    """
    check_callables(on_bad=on_bad, on_progress=on_progress)
    classes = [] if labels is None else list(labels) if isinstance(labels, Iterator) else listed("labels", labels)
    objects = objects_in(pairs, reading_of(columns, id, labelled=labels is not None and not classes))
    return Source(objects, on_bad, step_of(on_progress, objects.total), classes)


def reading_of(
    columns: Sequence[str | int] | str | int | None, id: str | int | None, *, labelled: bool = False
) -> Reading:
    """Which columns are read. Raises: OptionError, PairsError."""
    keys = columns_of("id", id)
    if keys is not None and len(keys) != 1:
        raise OptionError(f"id names {len(keys)} columns", "name one")
    return Reading(columns_of("columns", columns), id=None if keys is None else keys[0], labelled=labelled)


def step_of(on_progress: OnProgress | None, total: int | None) -> OnStep | None:
    """What tells of each step; `total` is how many pairs there are, where a step has no number of its own."""
    if on_progress is None:
        return None
    tell = on_progress  # not None
    return lambda doing, done, number=None: tell(doing, done, total if number is None else number)


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
