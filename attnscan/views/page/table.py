"""Every head's labels, scores and profile as a page holds them: the CSV's cells, with fewer decimals if need be.

A page has them in up to four readings: by weight and, where that can be had, by what heads carry, each with special
tokens and among words alone.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import Behaviours, Labels
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.profile import OFFSETS, Profile
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Reading
from attnscan.results.tables import DECIMALS, safe_cell
from attnscan.safe_text import plain
from attnscan.views.behaviour import reading_title, statement, summary
from attnscan.views.page.cargo import compressed
from attnscan.views.palette import PARKS

_WHOLE = ("statement_rank",)  # whole numbers, though some are unknown
_COARSER = (4, 3, 2)  # decimals of scores that do not fit with all of them
_UNSURE, _RESTS = 1, 2
_PARTS, _MOST_PARTS = 6, 10  # of a head, at most: on one input, and over many pairs
_MOST_HEADS = 600  # whose profiles take 25 kB; of more, a page has better things to hold
_NAMED = {
    Reading("weight", "in"): "weight",
    Reading("weight", "out"): "words",
    Reading("carried", "in"): "carried",
    Reading("carried", "out"): "carried-words",
}


_Readings = dict[Reading, tuple[Classification | Ranking, dict[str, NDArray[Any]]]]
"""By reading, a result that tells it, and the columns of its table."""


@dataclass(frozen=True)
class HeadsByReading:
    """What every head is called by one reading, and its line of the CSV."""

    name: str
    """`weight`, `words` (weight among words), `carried` or `carried-words`."""
    behaviours: Behaviours
    """With statements where the result has them by this reading."""
    summary: str
    """How many heads do something, in a sentence."""
    columns: Mapping[str, NDArray[Any]]
    """Shape: [head] each."""

    @property
    def labels(self) -> Labels:
        """What every head is called."""
        return self.behaviours.labels

    @property
    def among_words(self) -> bool:
        """Whether special tokens are removed."""
        return not self.behaviours.special

    @property
    def title(self) -> str:
        """What it tells of each head."""
        return reading_title(self.labels, among_words=self.among_words)

    @property
    def marks(self) -> str:
        """A digit for each head: 1 if what it does is not sure, 2 if it rests on delimiters, 3 for both, else 0.

        It is said to rest there among words alone: elsewhere, `delimiter` is a label like others.
        """
        rests = self.among_words & (self.labels.parking >= PARKS)
        return "".join(map(str, (_UNSURE * self.behaviours.unsure + _RESTS * rests).ravel().tolist()))

    @property
    def chance(self) -> list[float | list[float | None] | None]:
        """Of each pattern, what an even spread would score: a number, or one a head where they differ."""
        chances: list[float | list[float | None] | None] = []
        table = self.labels.scores.table(self.among_words)
        for of_heads in np.moveaxis(np.broadcast_to(table.chance, table.score.shape), -1, 0):
            different = np.unique(of_heads)
            values = (different if len(different) == 1 else of_heads.ravel()).tolist()
            known = [None if math.isnan(value) else round(value, 5) for value in values]
            chances.append(known[0] if len(set(known)) == 1 else known)
        return chances


@dataclass(frozen=True)
class Table:
    """Every head's labels and scores, as the CSV has them."""

    columns: tuple[str, ...]
    packed: str
    """JSON, base64 of deflated bytes: the cells of the columns that all readings share (`names`); the cells of each
    other column by each reading, or the place of the reading that has the same ones (`cells`); and by each reading's
    name every head's `marks`, each pattern's `chance`, the `summary` and what every head `does` in words; and the names
    of the readings that have statements (`stated`)."""
    decimals: int
    """Of its numbers. The CSV has 6."""


def readings_of_input(result: Classification, *, carried: bool) -> tuple[HeadsByReading, ...]:
    """The heads of one input, by every reading; by what they carry only with `carried`."""
    readings: _Readings = {}
    for reading in _NAMED:
        if carried or not reading.carried:
            turned = replace(result.with_reading(reading.by, reading.special), behaviour=reading)
            readings[reading] = turned, turned.columns()
    return _usual_last(readings, result)


def readings_of_pairs(result: Ranking) -> tuple[HeadsByReading, ...]:
    """The heads over many pairs, by every reading that was counted; statements are by one of them.

    Raises: OptionError if the ranking has no labels.
    """
    there = [*([] if result.known_labels().norm else ["weight"]), *([] if result.carried is None else ["carried"])]
    readings: _Readings = {}
    for reading in _NAMED:
        if reading.by in there:
            turned = result.with_reading(reading.by, reading.special)
            columns = _columns_of_pairs(turned)
            readings[reading] = replace(turned, behaviour=reading, statements=None), columns
    return _usual_last(readings, result)


def _usual_last(readings: _Readings, result: Classification | Ranking) -> tuple[HeadsByReading, ...]:
    """The reading by which the result tells what heads do comes last: pages open on it."""
    usual = Reading("carried" if result.mapped.norm else "weight", result.behaviour.special)
    if usual in readings:
        readings[usual] = result, readings[usual][1]
    else:  # what heads carry is not on the page
        usual = Reading("weight", usual.special)
    model = np.full(len(result.scores.grid), result.signature.model, dtype=object)
    return tuple(
        HeadsByReading(_NAMED[reading], told.behaviours, summary(told), {"model": model, **columns})
        for reading, (told, columns) in sorted(readings.items(), key=lambda item: item[0] == usual)
    )


def _columns_of_pairs(result: Ranking) -> dict[str, NDArray[Any]]:
    """Each head's labels and how sure they are, and its score for each pattern with the 95 % interval."""
    frame = result.to_labels().drop(columns="model").astype({"statement_rank": float})
    columns = {str(name): column.to_numpy() for name, column in frame.items()}
    table, (low, high) = result.table, result.table.interval
    for p, pattern in enumerate(result.scores.patterns):
        for name, values in ((pattern, table.score), (f"{pattern}_low", low), (f"{pattern}_high", high)):
            columns[name] = values[..., p].ravel()
    return columns


def tables(readings: Sequence[HeadsByReading]) -> Iterator[Table]:
    """The labels and scores of all heads with all decimals, then with ever fewer."""
    columns, grid = list(readings[0].columns), readings[0].labels.scores.grid
    common = columns.index("head") + 1  # model, kind, layer and head, which all readings have in common
    names = [_cells(name, readings[0].columns[name]) for name in columns[:common]]
    about = {
        "marks": {reading.name: reading.marks for reading in readings},
        "chance": {reading.name: reading.chance for reading in readings},
        "summary": {reading.name: plain(reading.summary) for reading in readings},
        "does": {
            reading.name: [statement(reading.behaviours, head) for head in grid if len(grid) <= _MOST_HEADS]
            for reading in readings
        },
        "stated": [reading.name for reading in readings if reading.behaviours.statements is not None],
    }
    for decimals in (DECIMALS, *_COARSER):
        text = json.dumps(
            {"names": names, "cells": _once(readings, columns[common:], decimals), **about}, separators=(",", ":")
        )
        yield Table(tuple(columns), compressed(text.encode(), zlib.Z_DEFAULT_STRATEGY), decimals)


def _once(readings: Sequence[HeadsByReading], columns: Sequence[str], decimals: int) -> list[list[Any]]:
    """By each reading the cells of its columns; in place of those that an earlier reading has as well, its place."""
    first: dict[tuple[str, ...], int] = {}
    whole: list[list[Any]] = []
    for place, reading in enumerate(readings):
        cells = {name: _cells(name, reading.columns[name], decimals) for name in columns}
        earlier = {name: first.setdefault((name, *of), place) for name, of in cells.items()}
        whole.append([of if earlier[name] == place else earlier[name] for name, of in cells.items()])
    return whole


def _cells(name: str, column: NDArray[Any], decimals: int = DECIMALS) -> list[str]:
    """The cells of a column of the CSV: empty where nothing is known."""
    if column.dtype.kind != "f":
        known = {cell: safe_cell(cell) if isinstance(cell, str) else str(cell) for cell in set(column.tolist())}
        return [known[cell] for cell in column.tolist()]
    if np.isnan(column).all():
        return [""] * len(column)
    form = ".0f" if name in _WHOLE else f".{decimals}f"
    return ["" if math.isnan(value) else format(value, form) for value in column.tolist()]


def profiles(result: Classification, *, carried: bool) -> str:
    """JSON, base64 of deflated bytes: by each reading a list of heads, each what is explained, also by even attention
    alone, and its parts' names and shares; empty where there are no profiles, or too many heads.
    """
    if result.scores.entropy.size > _MOST_HEADS:
        return ""
    readings = {"weight": result.with_reading("weight").profile}
    readings |= {"carried": result.with_reading("carried").profile} if carried else {}
    return _packed({name: _heads(profile) for name, profile in readings.items() if profile is not None})


def profiles_of_pairs(profile: Profile | None) -> str:
    """Profiles over many pairs, by the single reading that was fitted: of each head what is explained, also by even
    attention alone, its largest parts' names, shares and half the widths of their 95 % intervals, and the latter two
    for each distance.
    """
    if profile is None or profile.fit.explained.size > _MOST_HEADS:
        return ""
    reading = "carried" if profile.signature.reading.carried else "weight"
    return _packed({reading: [_with_errors(profile, head) for head in profile.grid]})


def _packed(told: dict[str, list[Any]]) -> str:
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return compressed(text.encode(), zlib.Z_DEFAULT_STRATEGY) if told else ""


def _with_errors(profile: Profile, head: Head) -> tuple[Any, ...]:
    share, half = profile.fit.share[head.place], profile.interval[head.place]
    order = [p for p in np.argsort(-np.nan_to_num(share), kind="stable").tolist() if share[p] > 0][:_MOST_PARTS]
    parts = [(plain(profile.parts[p]), _four_decimals(share[p]), _four_decimals(half[p])) for p in order]
    places = [profile.parts.index(f"offset{offset:+}") for offset in OFFSETS]
    distances = [(_four_decimals(share[p]), _four_decimals(half[p])) for p in places]
    return *_explained(profile, head), parts, distances


def _explained(profile: Profile, head: Head) -> tuple[float | None, float | None]:
    return _four_decimals(profile.fit.explained[head.place]), _four_decimals(profile.fit.by_even[head.place])


def _four_decimals(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)


def _heads(profile: Profile) -> list[tuple[Any, ...]]:
    strongest = ((head, profile.strongest(head)[:_PARTS]) for head in profile.grid)
    return [
        (*_explained(profile, head), [(plain(name), round(share, 3)) for name, share in parts])
        for head, parts in strongest
    ]
