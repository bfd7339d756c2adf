"""JSON with one of its values another, for each of its values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def changed(data: Any, others: Callable[[Any], Iterable[Any]]) -> Iterator[tuple[str, Any]]:
    """Where a value stands, and all of the data with another one there: of each value each of its `others`."""
    for place in _places(data):
        for other in others(_at(data, place)):
            yield ".".join(map(str, place)), _with(data, place, other)


def of_other_types(value: Any) -> list[Any]:
    """Values of every type but for those that are like it, and of sizes that nobody has."""
    numbers, texts = (None, True, 0, -1, 7, 1.5, float("nan"), 1e308, 10**30), ("", "x", "x" * 100_000)
    every = (*numbers, *texts, [], [1], [[]], {}, {"a": 1})
    return [other for other in every if type(other) is not type(value) or other != value]


def _places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from _places(value, (*place, key))


def _at(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        data = data[key]
    return data


def _with(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    data = copy.deepcopy(data)
    _at(data, place[:-1])[place[-1]] = value
    return data
