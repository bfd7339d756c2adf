"""Every head's labels, scores and shares of attention as a page holds them: the cells of the CSV.

A page of one input has them in up to four readings: by weight and, where that is known, by what heads carry, each with
special tokens and among words alone.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import Labels
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.results.intervals import half_width
from attnscan.results.profile import Profile
from attnscan.results.signature import By, Reading
from attnscan.results.tables import DECIMALS, safe_cell
from attnscan.safe_text import plain
from attnscan.views.behaviour import statement, summary
from attnscan.views.page.cargo import compressed

_UNSURE, _RESTS = 1, 2
_LEAST_SHARE = 0.01  # of a word's attention; classes with less are not listed
_MOST_HEADS = 600  # whose shares take 25 kB; of more, a page has better things to hold
_NAMED = {
    Reading("weight", "in"): "weight",
    Reading("weight", "out"): "words",
    Reading("carried", "in"): "carried",
    Reading("carried", "out"): "carried-words",
}


@dataclass(frozen=True)
class HeadsByReading:
    """What every head does by one reading, and its line of the CSV."""

    labels: Labels
    """What every head does, and how sure that is."""
    summary: str
    """How many heads do something, in a sentence."""
    columns: Mapping[str, NDArray[Any]]
    """Shape: [head] each."""

    @property
    def name(self) -> str:
        """`weight`, `words` (weight among words), `carried` or `carried-words`."""
        return _NAMED[self.labels.reading]

    @property
    def title(self) -> str:
        """What it tells of each head."""
        return f"what each head does, {self.labels.reading}"

    @property
    def marks(self) -> str:
        """A digit for each head: 1 if what it does is not sure, 2 if it rests on special tokens, 3 for both, else 0."""
        return "".join(map(str, (_UNSURE * self.labels.unsure + _RESTS * self.labels.rests).ravel().tolist()))

    @property
    def chance(self) -> list[float | list[float | None] | None]:
        """Of each pattern, what even attention would score: a number, or one a head where they differ."""
        chances: list[float | list[float | None] | None] = []
        table = self.labels.table
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
    name every head's `marks`, each pattern's `chance`, the `summary` and what every head `does` in words."""


def readings_of_input(result: HeadScores, *, carried: bool) -> tuple[HeadsByReading, ...]:
    """The heads of one input, by every reading; by what they carry only with `carried`. The result's own comes last."""
    known = [reading for reading in _NAMED if reading in result.labels_by and (carried or not reading.carried)]
    readings = []
    for reading in sorted(known, key=lambda reading: reading == result.reading):
        turned = result.with_reading(reading.by, reading.special)
        columns = {"model": _model(turned), **turned.labels.columns(turned.pattern or turned.scores.patterns)}
        if turned.output is not None:
            columns["output"] = turned.output.ravel()
        readings.append(HeadsByReading(turned.labels, summary(turned), columns))
    return tuple(readings)


def readings_of_pairs(result: HeadScores) -> tuple[HeadsByReading, ...]:
    """The heads over many pairs by the reading that was counted; each score has its 95 % interval beside it.

    Raises: OptionError if the ranking has no labels.
    """
    labels, (low, high) = result.labels, result.table.interval
    columns = {"model": _model(result), **labels.columns(())}
    del columns["entropy"]  # which stands behind the scores
    for p, pattern in enumerate(result.scores.patterns):
        for name, values in ((pattern, result.table.score), (f"{pattern}_low", low), (f"{pattern}_high", high)):
            columns[name] = values[..., p].ravel()
    columns["entropy"] = result.scores.entropy.ravel()
    return (HeadsByReading(labels, summary(result), columns),)


def _model(result: HeadScores) -> NDArray[Any]:
    return np.full(len(result.scores.grid), result.signature.model, dtype=object)


def table_of(readings: Sequence[HeadsByReading]) -> Table:
    """The labels and scores of all heads."""
    columns, grid = list(readings[0].columns), readings[0].labels.scores.grid
    common = columns.index("name") + 1  # model, kind, layer, head and name, which all readings have in common
    names = [_cells(readings[0].columns[name]) for name in columns[:common]]
    about = {
        "marks": {reading.name: reading.marks for reading in readings},
        "chance": {reading.name: reading.chance for reading in readings},
        "summary": {reading.name: plain(reading.summary) for reading in readings},
        "does": {
            reading.name: [statement(reading.labels, head) for head in grid if len(grid) <= _MOST_HEADS]
            for reading in readings
        },
    }
    text = json.dumps({"names": names, "cells": _once(readings, columns[common:]), **about}, separators=(",", ":"))
    return Table(tuple(columns), compressed(text.encode(), zlib.Z_DEFAULT_STRATEGY))


def _once(readings: Sequence[HeadsByReading], columns: Sequence[str]) -> list[list[Any]]:
    """By each reading the cells of its columns; in place of those that an earlier reading has as well, its place."""
    first: dict[tuple[str, ...], int] = {}
    whole: list[list[Any]] = []
    for place, reading in enumerate(readings):
        cells = {name: _cells(reading.columns[name]) for name in columns}
        earlier = {name: first.setdefault((name, *of), place) for name, of in cells.items()}
        whole.append([of if earlier[name] == place else earlier[name] for name, of in cells.items()])
    return whole


def _cells(values: Sequence[Any] | NDArray[Any]) -> list[str]:
    """The cells of a column of the CSV: empty where nothing is known."""
    column = np.asarray(values)
    if column.dtype.kind != "f":
        known = {cell: safe_cell(cell) if isinstance(cell, str) else str(cell) for cell in set(column.tolist())}
        return [known[cell] for cell in column.tolist()]
    if np.isnan(column).all():
        return [""] * len(column)
    return ["" if math.isnan(value) else f"{value:.{DECIMALS}f}" for value in column.tolist()]


def profiles(result: HeadScores, *, carried: bool) -> str:
    """Where every head's attention goes on one input, by weight and, with `carried`, by what it carries: of each head
    its classes and their shares; empty for too many heads, and where that is not measured yet.
    """
    if result.scores.entropy.size > _MOST_HEADS or result.labels.classes is None:
        return ""
    readings: tuple[By, ...] = ("weight", "carried") if carried else ("weight",)
    return _packed({by: _of_heads(result.with_reading(by).profile) for by in readings})


def profiles_of_pairs(result: HeadScores) -> str:
    """Where every head's attention goes over many pairs, with half the 95 % interval of each share."""
    if result.scores.entropy.size > _MOST_HEADS or result.labels.classes is None:
        return ""
    return _packed({result.reading.by: _of_heads(result.profile)})


def _packed(told: dict[str, list[Any]]) -> str:
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return compressed(text.encode(), zlib.Z_DEFAULT_STRATEGY) if told else ""


def _four_decimals(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 4)


def _of_heads(profile: Profile) -> list[list[tuple[Any, ...]]]:
    half = half_width(profile.se, profile.signature.pairs_read)
    places = {name: place for place, name in enumerate(profile.classes)}

    def row(head: Head, name: str, share: float) -> tuple[Any, ...]:
        return plain(name), _four_decimals(share), _four_decimals(half[(*head.place, places[name])])

    return [[row(head, *entry) for entry in profile.strongest(head, _LEAST_SHARE)] for head in profile.grid]
